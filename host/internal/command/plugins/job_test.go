package plugins

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	state, err := readState(path)
	if err != nil || state.JobID != "" || state.ProviderStatus != nil || state.remove() != nil {
		t.Fatalf("expected an empty state of a missing file, but found %+v (%v)", state, err)
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
	_, err = readState(commandtest.WriteFile(t, "state.json", "{"))
	if err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("expected the file to be named, but found: %v", err)
	}
	state.path = filepath.Join(t.TempDir(), "no", "where")
	if err := state.save([]byte("{}")); err == nil {
		t.Error("expected an error for the plugin")
	}
}

// newJob returns a job with a state file.
func newJob(t *testing.T, op plugin.Operation) *job {
	t.Helper()
	return &job{
		op: op, state: &stateFile{path: filepath.Join(t.TempDir(), "state.json"), JobID: "job"},
		Call: &local.Call{Call: plugin.Call{DeployItem: &v1alpha1.DeployItem{}}}, say: &printer{out: &bytes.Buffer{}},
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	progress, success := &plugin.InProgress{}, &plugin.Succeeded{}
	later := plugin.Outcome{Errors: []plugin.Error{{RetryAfter: time.Second}}}
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
		{"an error with a time for the next try ends no job", plugin.Reconcile, later, "job", false},
		{"nothing is left of an item that is deleted", plugin.Delete, plugin.Outcome{Succeeded: success}, "", true},
	} {
		e := newJob(t, tc.op)
		tc.outcome.ProviderStatus = []byte(`{"b":2}`)
		if err := e.keep(&tc.outcome); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(e.state.path)
		if os.IsNotExist(err) != tc.gone {
			t.Errorf("%s: expected the file to be gone: %t, but found: %v", tc.reason, tc.gone, err)
		}
		got, err := readState(e.state.path)
		kept := strings.Join(strings.Fields(string(got.ProviderStatus)), "")
		if err != nil || got.JobID != tc.job || !tc.gone && kept != `{"b":2}` {
			t.Errorf("%s: expected job %q and the provider status, but found %+v (%v)", tc.reason, tc.job, got, err)
		}
	}
}

// A saved provider status is for the next call, not for the running call.
func TestSaveIsForTheNextCall(t *testing.T) {
	t.Parallel()
	e := newJob(t, plugin.Reconcile)
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

// TestProblemsEndTheJob: the first call of a job is not made for a configuration with problems.
func TestProblemsEndTheJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		found plugin.Validation
		calls int
		says  string
	}{
		"valid": {plugin.Validation{}, 1, "succeeded"},
		"problems": {
			plugin.Validation{Errors: []plugin.Error{{Reason: "Wrong", Message: "spec.config: a: wrong"}}}, 0,
			"failed          Wrong: spec.config: a: wrong",
		},
	} {
		var out bytes.Buffer
		calls := 0
		j := newJob(t, plugin.Reconcile)
		j.say, j.validates, j.Deadline = &printer{out: &out}, true, time.Now().Add(time.Hour)
		j.plugin = &intaketest.Deployer{
			OnValidate: func(context.Context, plugin.Call) (*plugin.Validation, error) { return &tc.found, nil },
			OnCall: func(
				context.Context, plugin.Operation, plugin.Call, plugin.Observer,
			) (*plugin.Outcome, error) {
				calls++
				return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
			},
		}
		if err := j.run(t.Context()); (err == nil) != (tc.calls == 1) || calls != tc.calls || j.state.JobID != "" ||
			!strings.Contains(out.String(), tc.says) {
			t.Errorf("%s: found %d calls, error %v, job %q and\n%s", name, calls, err, j.state.JobID, &out)
		}
	}
}

// TestPrinter: one message of each kind.
func TestPrinter(t *testing.T) {
	t.Parallel()
	drifted := sdk.Condition{
		Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas\x1b[31m",
	}
	codes := []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem, v1alpha1.ErrorInternalProblem}
	for name, asJSON := range map[string]bool{"run.golden.txt": false, "run.golden.jsonl": true} {
		var out bytes.Buffer
		n := &printer{out: &out, json: asJSON}
		j := &job{say: n}
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
		commandtest.ExpectGolden(t, name, out.String())
	}
	n := &printer{out: (*os.File)(nil)} // it refuses all writes
	n.saved([]byte("{}"))
	if err := n.outcome(&plugin.Outcome{Succeeded: &plugin.Succeeded{}}); err == nil {
		t.Error("expected the error of the output")
	}
}
