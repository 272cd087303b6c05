package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	tooMuch := bytes.Repeat([]byte("1"), maxProviderStatus+1)
	for what, document := range map[string][]byte{"is not valid JSON": []byte("{"), "at most": tooMuch} {
		if err := state.save(document); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("expected an error with %q, but found: %v", what, err)
		}
	}
	none, err := readState("")
	if err != nil || none.save([]byte("{}")) != nil || none.remove() != nil {
		t.Errorf("without a file nothing is kept: %v", err)
	}
	if _, err := readState(writeFile(t, "state.json", "{")); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("expected the file to be named, but found: %v", err)
	}
	state.path = filepath.Join(t.TempDir(), "no", "where")
	if err := state.save([]byte("{}")); err == nil {
		t.Error("expected the plugin to hear that its status was not saved")
	}
	if err := state.remove(); err != nil {
		t.Errorf("remove a state that is gone: %v", err)
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
		localCall: &localCall{Call: plugin.Call{DeployItem: &v1alpha1.DeployItem{}}}, say: &narrator{out: &bytes.Buffer{}},
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
		{"a later run goes on with the job", plugin.Reconcile, plugin.Outcome{InProgress: progress}, "job", false},
		{"a deletion, too", plugin.Delete, plugin.Outcome{InProgress: progress}, "job", false},
		{"the next run is another job", plugin.Reconcile, plugin.Outcome{Succeeded: success}, "", false},
		{"a job that has failed is at its end", plugin.Delete, plugin.Outcome{Errors: []plugin.Error{{}}}, "", false},
		{"nothing is left of an item that is deleted", plugin.Delete, plugin.Outcome{Succeeded: success}, "", true},
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
	under := e.DeployItem
	under.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"old":1}`)}
	if err := e.SaveProviderStatus(t.Context(), []byte(`{"new":1}`)); err != nil {
		t.Fatal(err)
	}
	before, after := under.Status.ProviderStatus.Raw, e.DeployItem.Status.ProviderStatus.Raw
	if string(before) != `{"old":1}` || string(after) != `{"new":1}` {
		t.Errorf("found %s and %s", before, after)
	}
}

// A plugin gets what --other-target and --secret name, and the item's own Target by its name, too.
func TestResolve(t *testing.T) {
	t.Parallel()
	e := newLocalJob(t, plugin.Reconcile)
	target := func(name string) *v1alpha1.ResolvedTarget {
		return &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	other, own := target("other"), target("own")
	e.others, e.Target = map[string]*v1alpha1.ResolvedTarget{"other": other}, own
	for name, want := range map[string]*v1alpha1.ResolvedTarget{"other": other, "own": own} {
		if got, err := e.ResolveTarget(t.Context(), name); got != want || err != nil {
			t.Errorf("%s: found %v (%v)", name, got, err)
		}
	}
	e.Target = nil
	_, err := e.ResolveTarget(t.Context(), "own")
	var problem plugin.Error
	if !errors.As(err, &problem) || problem.Reason != "NoTargetFound" || len(problem.Codes) != 1 ||
		!strings.Contains(problem.Message, "--other-target own=FILE") {
		t.Errorf("expected to hear what to do, but found: %v", err)
	}

	secret := &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(pullConfig)}}
	e.secrets, e.DeployItem.Namespace = fileSecrets{"pull": secret}, "shop"
	got, err := e.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Namespace: "shop", Name: "pull"})
	if err != nil || string(got.DockerConfig) != pullConfig {
		t.Errorf("expected the credentials of the file, but found %v, %v", got, err)
	}
	gone, err := e.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Name: "gone"})
	if err != nil || !strings.Contains(gone.Problem, `there is no Secret "shop/gone"`) {
		t.Errorf("expected to hear what is missing, but found %v, %v", gone, err)
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
	reserved := []sdk.Condition{{Type: "Ready", Status: v1alpha1.ConditionTrue, Reason: "R"}}
	err := check(&plugin.Outcome{Succeeded: &plugin.Succeeded{}, Conditions: reserved})
	if err == nil || !strings.Contains(err.Error(), "Ready") {
		t.Errorf("a condition of the host's: expected it to be refused, but found: %v", err)
	}
}

// TestNarrator: everything that there is to say.
func TestNarrator(t *testing.T) {
	t.Parallel()
	drifted := sdk.Condition{
		Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas\x1b[31m",
	}
	codes := []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem, v1alpha1.ErrorInternalProblem}
	for name, asJSON := range map[string]bool{"run.golden.txt": false, "run.golden.jsonl": true} {
		var out bytes.Buffer
		n := &narrator{out: &out, json: asJSON}
		j := &localJob{say: n}
		j.Progress("Apply", "object 1 of 2\x1b[31m")
		j.Event(false, "Applied", "it is there")
		j.Event(true, "Slow", "it takes long")
		n.saved([]byte(`{"kind":"Status"}`))
		for _, o := range []*plugin.Outcome{
			{Succeeded: &plugin.Succeeded{Exports: []byte(`{"a":1}`)}, ProviderStatus: []byte(`{"kind":"Last"}`)},
			{Succeeded: &plugin.Succeeded{}, Conditions: []sdk.Condition{drifted}},
			{InProgress: &plugin.InProgress{WaitingFor: "Deployment a", PollAfter: 90 * time.Second}},
			{InProgress: &plugin.InProgress{}},
			{Errors: []plugin.Error{
				{Codes: codes, Operation: "Apply", Reason: "Bad", Message: "spec.config"}, {Reason: "Unknown", Message: "no idea"},
			}},
		} {
			if err := n.outcome(o); err != nil {
				t.Fatal(err)
			}
		}
		expectGolden(t, name, out.String())
	}
	closed, err := os.Open(os.DevNull) // nothing can be written to it
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	n := &narrator{out: closed}
	n.saved([]byte("{}"))
	if err := n.outcome(&plugin.Outcome{Succeeded: &plugin.Succeeded{}}); err == nil {
		t.Error("expected to hear that nothing could be printed")
	}
}
