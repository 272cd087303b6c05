package control

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/journal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakeJobs answers with jobs for a namespace and a name.
type fakeJobs func(namespace, name string) []journal.Job

var _ Jobs = (fakeJobs)(nil)

func (f fakeJobs) Jobs(namespace, name string) []journal.Job { return f(namespace, name) }

var noJobs fakeJobs = func(string, string) []journal.Job { return nil }

// fullJob is a job of which everything is known.
func fullJob() journal.Job {
	at := func(second int) time.Time {
		return time.Date(2026, 1, 2, 4, 4, second, 5e8, time.FixedZone("CET", 3600))
	}
	return journal.Job{
		Plugin: "helm", Namespace: "ns", Name: "item", UID: "u-1", JobID: "j-1", Operation: "Reconcile",
		Triggered: at(1), Began: at(2), Ended: at(9), Phase: v1alpha1.DeployItemPhaseFailed, WaitingFor: "the pod", Until: at(10),
		LastError: &journal.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "Late", Message: "too late"},
		Calls:     2, Retries: 1, Requests: 7,
		Entries: []journal.Entry{{Time: at(2), Kind: "Call", Message: "Reconcile: done", Took: 1500 * time.Millisecond, Times: 2, Last: at(8)}}, LeftOut: 3, LeftOutAfter: 1,
	}
}

// Scripts of operators read the names of these fields.
func TestWireOfJobs(t *testing.T) {
	t.Parallel()
	text, err := json.MarshalIndent(JobsOf([]journal.Job{fullJob(), {Plugin: "mock", Namespace: "ns", Name: "new"}}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "jobs.golden.json")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	empty, err := json.Marshal(JobsOf(nil))
	if err != nil || string(empty) != `{"jobs":[]}` {
		t.Errorf("a host without jobs: %s, %v", empty, err)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	var asked [2]string
	jobs := fakeJobs(func(namespace, name string) []journal.Job {
		asked = [2]string{namespace, name}
		return []journal.Job{fullJob()}
	})
	dir, _ := serveJobs(t, &fakePlugins{}, jobs)
	for _, tc := range []struct{ reason, namespace, name string }{
		{"all", "", ""},
		{"of a namespace", "ns", ""},
		{"of an item", "ns", "item"},
		{"a name that needs quotes", "a&b=c", "ü ?"},
	} {
		got, err := NewClient(dir).Jobs(t.Context(), tc.namespace, tc.name)
		if err != nil || asked != [2]string{tc.namespace, tc.name} {
			t.Errorf("%s: the host was asked for %q (%v)", tc.reason, asked, err)
		}
		if diff := cmp.Diff(JobsOf([]journal.Job{fullJob()}), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
	status, failure := ask(t, dir, http.MethodGet, jobsPath+"?item=a", bearer+mustToken(t, dir))
	if status != http.StatusBadRequest || !strings.Contains(failure, `"item"`) {
		t.Errorf("expected an unknown parameter to be refused, but found %d with %q", status, failure)
	}
	if _, err := NewClient(shortDir(t)).Jobs(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "ask the host for its jobs") {
		t.Errorf("expected that there is no host, but found %v", err)
	}
}
