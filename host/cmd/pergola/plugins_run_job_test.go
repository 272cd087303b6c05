package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	state, err := readState(path)
	if err != nil || state.JobID != "" || state.ProviderStatus != nil {
		t.Fatalf("expected an empty state where there is none, but found %+v (%v)", state, err)
	}
	state.JobID = "job"
	if err := state.save([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	again, err := readState(path)
	if err != nil || again.JobID != "job" || !jsonEqual(t, again.ProviderStatus, `{"a":1}`) {
		t.Errorf("expected what was saved, but found %+v (%v)", again, err)
	}
	for what, document := range map[string][]byte{"is not valid JSON": []byte("{"), "at most": bytes.Repeat([]byte("1"), maxProviderStatus+1)} {
		if err := state.save(document); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("expected an error with %q, but found: %v", what, err)
		}
	}
	for range 2 {
		if err := state.remove(); err != nil {
			t.Errorf("remove the state, which may be gone: %v", err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("expected nothing to be left, but found %v (%v)", left, err)
	}
	none, err := readState("")
	if err != nil || none.save([]byte("{}")) != nil || none.remove() != nil {
		t.Errorf("without a file nothing is kept: %v", err)
	}
}

func TestStateErrors(t *testing.T) {
	t.Parallel()
	if _, err := readState(writeFile(t, "state.json", "{")); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("expected the file to be named, but found: %v", err)
	}
	state := &stateFile{path: filepath.Join(t.TempDir(), "no", "where")}
	if err := state.save([]byte("{}")); err == nil {
		t.Error("expected the plugin to hear that its status was not saved")
	}
}

func jsonEqual(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, got); err != nil {
		t.Fatal(err)
	}
	return compact.String() == want
}

// newLocalJob returns one that keeps its state in a file.
func newLocalJob(t *testing.T, op plugin.Operation) *localJob {
	t.Helper()
	return &localJob{
		op: op, state: &stateFile{path: filepath.Join(t.TempDir(), "state.json"), JobID: "job"},
		call: plugin.Call{DeployItem: &v1alpha1.DeployItem{}}, say: &narrator{out: &bytes.Buffer{}},
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	progress, success := &plugin.InProgress{}, &plugin.Succeeded{}
	for _, tc := range []struct {
		reason  string
		op      plugin.Operation
		outcome plugin.Outcome
		job     string
		gone    bool
	}{
		{reason: "a later run goes on with the job", op: plugin.Reconcile, outcome: plugin.Outcome{InProgress: progress}, job: "job"},
		{reason: "a deletion, too", op: plugin.Delete, outcome: plugin.Outcome{InProgress: progress}, job: "job"},
		{reason: "the next run is another job", op: plugin.Reconcile, outcome: plugin.Outcome{Succeeded: success}},
		{reason: "a job that has failed is at its end", op: plugin.Delete, outcome: plugin.Outcome{Errors: []plugin.Error{{}}}},
		{reason: "nothing is left of an item that is deleted", op: plugin.Delete, outcome: plugin.Outcome{Succeeded: success}, gone: true},
	} {
		e := newLocalJob(t, tc.op)
		tc.outcome.ProviderStatus = []byte(`{"b":2}`)
		if err := e.keep(&tc.outcome); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(e.state.path)
		if os.IsNotExist(err) != tc.gone {
			t.Errorf("%s: expected the file to be gone: %t, but found: %v", tc.reason, tc.gone, err)
		}
		got, err := readState(e.state.path)
		if err != nil || got.JobID != tc.job || !tc.gone && !jsonEqual(t, got.ProviderStatus, `{"b":2}`) {
			t.Errorf("%s: expected job %q and the provider status, but found %+v (%v)", tc.reason, tc.job, got, err)
		}
	}
}

// What is saved is what the next call gets, and not what the call under way works with.
func TestSaveIsForTheNextCall(t *testing.T) {
	t.Parallel()
	e := newLocalJob(t, plugin.Reconcile)
	under := e.call.DeployItem
	under.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"old":1}`)}
	if err := e.SaveProviderStatus(t.Context(), []byte(`{"new":1}`)); err != nil {
		t.Fatal(err)
	}
	if string(under.Status.ProviderStatus.Raw) != `{"old":1}` || string(e.call.DeployItem.Status.ProviderStatus.Raw) != `{"new":1}` {
		t.Errorf("found %s and %s", under.Status.ProviderStatus.Raw, e.call.DeployItem.Status.ProviderStatus.Raw)
	}
}

// A plugin gets what --other-target names, and the item's own Target by its name, too.
func TestResolveOtherTarget(t *testing.T) {
	t.Parallel()
	e := newLocalJob(t, plugin.Reconcile)
	target := func(name string) *v1alpha1.ResolvedTarget {
		return &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	other, own := target("other"), target("own")
	e.others, e.call.Target = map[string]*v1alpha1.ResolvedTarget{"other": other}, own
	for name, want := range map[string]*v1alpha1.ResolvedTarget{"other": other, "own": own} {
		if got, err := e.ResolveTarget(t.Context(), name); got != want || err != nil {
			t.Errorf("%s: found %v (%v)", name, got, err)
		}
	}
	e.call.Target = nil
	_, err := e.ResolveTarget(t.Context(), "own")
	var problem plugin.Error
	if !errors.As(err, &problem) || problem.Reason != "NoTargetFound" || len(problem.Codes) != 1 || !strings.Contains(problem.Message, "--other-target own=FILE") {
		t.Errorf("expected to hear what to do, but found: %v", err)
	}
}

// A plugin gets the credentials of what --secret names, as from a host.
func TestResolveRegistryCredentials(t *testing.T) {
	t.Parallel()
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: pull}, stringData: {.dockerconfigjson: '" + pullConfig + "'}}"
	secrets, err := (&callFlags{secrets: []string{writeFile(t, "secret.yaml", secret)}}).readSecrets()
	if err != nil {
		t.Fatal(err)
	}
	e := newLocalJob(t, plugin.Reconcile)
	e.call.DeployItem.Namespace, e.secrets = "shop", secrets
	want := &sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(pullConfig)}
	got, err := e.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Namespace: "shop", Name: "pull"})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("credentials: %v (-want +got):\n%s", err, diff)
	}
	gone, err := e.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Name: "gone"})
	if err != nil || !strings.Contains(gone.Problem, `there is no Secret "shop/gone"`) {
		t.Errorf("expected to hear what is missing, but found %v, %v", gone, err)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	woken := make(chan [2]string)
	e := newLocalJob(t, plugin.Reconcile)
	e.call.DeployItem.Name, e.call.DeployItem.Namespace, e.woken = "a", "ns", woken
	ended := make(chan error, 1)
	go func() { ended <- e.wait(t.Context(), time.Hour) }()
	woken <- [2]string{"ns", "other"}
	select {
	case <-ended:
		t.Fatal("another item has woken this one")
	default:
	}
	woken <- [2]string{"ns", "a"}
	if err := <-ended; err != nil {
		t.Errorf("the item was woken, but: %v", err)
	}
	if err := e.wait(t.Context(), time.Nanosecond); err != nil {
		t.Errorf("the pause was over, but: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for exports, good := range map[string]bool{`{"a":1}`: true, `[]`: false, `{`: false, `"a"`: false} {
		err := check(&plugin.Outcome{Succeeded: &plugin.Succeeded{Exports: []byte(exports)}})
		if (err == nil) != good {
			t.Errorf("exports %s: %v", exports, err)
		}
	}
	reserved := &plugin.Outcome{Succeeded: &plugin.Succeeded{}, Conditions: []sdk.Condition{{Type: "Ready", Status: v1alpha1.ConditionTrue, Reason: "R"}}}
	if err := check(reserved); err == nil || !strings.Contains(err.Error(), "Ready") {
		t.Errorf("a condition of the host's: expected it to be refused, but found: %v", err)
	}
	for _, outcome := range []*plugin.Outcome{{Succeeded: &plugin.Succeeded{}}, {InProgress: &plugin.InProgress{}}, {Errors: []plugin.Error{{}}}} {
		if err := check(outcome); err != nil {
			t.Errorf("%+v: %v", outcome, err)
		}
	}
}

// narrate has everything said that there is to say.
func narrate(t *testing.T, asJSON bool) string {
	t.Helper()
	var out bytes.Buffer
	n := &narrator{out: &out, json: asJSON}
	n.progress("Apply", "object 1 of 2\x1b[31m")
	n.event(false, "Applied", "it is there")
	n.event(true, "Slow", "it takes long")
	n.saved([]byte(`{"kind":"Status"}`))
	for _, o := range []*plugin.Outcome{
		{Succeeded: &plugin.Succeeded{Exports: []byte(`{"a":1}`)}, ProviderStatus: []byte(`{"kind":"Last"}`)},
		{Succeeded: &plugin.Succeeded{}, Conditions: []sdk.Condition{{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas\x1b[31m"}}},
		{InProgress: &plugin.InProgress{WaitingFor: "Deployment a", PollAfter: 90 * time.Second}},
		{InProgress: &plugin.InProgress{}},
		{Errors: []plugin.Error{
			{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem, v1alpha1.ErrorInternalProblem}, Operation: "Apply", Reason: "Bad", Message: "spec.config"},
			{Reason: "Unknown", Message: "no idea"},
		}},
	} {
		if err := n.outcome(o); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestNarrator(t *testing.T) {
	t.Parallel()
	expectGolden(t, "run.golden.txt", narrate(t, false))
	expectGolden(t, "run.golden.jsonl", narrate(t, true))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

func TestNarratorThatCannotPrint(t *testing.T) {
	t.Parallel()
	n := &narrator{out: brokenWriter{}}
	n.progress("a", "b")
	if err := n.outcome(&plugin.Outcome{Succeeded: &plugin.Succeeded{}}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("expected the reason, but found: %v", err)
	}
}
