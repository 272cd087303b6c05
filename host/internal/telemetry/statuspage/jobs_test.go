package statuspage

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// jobOf is the job of a DeployItem of a name.
func jobOf(name string) telemetry.Job {
	return telemetry.Job{
		Plugin: "manifest", Item: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID("uid-" + name),
		ID: "job-" + name, Operation: "Reconcile",
	}
}

var (
	succeeded = telemetry.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded}
	failed    = telemetry.Ended{Phase: v1alpha1.DeployItemPhaseFailed, Error: &telemetry.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "NotReady",
		Text: "Deployment shop/web has not become available",
	}}
	waits = telemetry.Waits{For: "Deployment shop/web to be available"}
)

func TestJobs(t *testing.T) {
	t.Parallel()
	request := telemetry.Done{Work: telemetry.Work{Of: telemetry.KindRequest, Name: "GET x"}}
	call := telemetry.Done{Work: telemetry.Work{Of: telemetry.KindCall}}
	step := telemetry.Progress{Step: "Install", Text: "1 of 2"}
	refused := telemetry.Retries{Error: telemetry.Error{Text: "refused"}}
	for _, tc := range []struct {
		reason  string
		events  []telemetry.Event
		running string // with its number of calls; empty if nothing runs
		failed  int
	}{
		{"a job that was picked up", []telemetry.Event{telemetry.PickedUp{}}, "0 calls", 0},
		{"one that another replica had", []telemetry.Event{telemetry.TakenOver{}, call}, "1 calls", 0},
		{
			"what it waits for", []telemetry.Event{telemetry.PickedUp{}, call, waits},
			"1 calls, waits for Deployment shop/web to be available", 0,
		},
		{"what it does", []telemetry.Event{telemetry.PickedUp{}, step}, "0 calls, waits for 1 of 2", 0},
		{"an error that is tried again", []telemetry.Event{waits, refused}, "0 calls, error refused", 0},
		{"a job that has gone elsewhere", []telemetry.Event{telemetry.PickedUp{}, telemetry.Left{}}, "", 0},
		{"a job that has ended, with a request after it", []telemetry.Event{telemetry.PickedUp{}, succeeded, request}, "", 0},
		{"a job that has failed", []telemetry.Event{telemetry.PickedUp{}, failed}, "", 1},
	} {
		jobs := NewJobs()
		for _, event := range tc.events {
			jobs.Observe(jobOf("web"), noon, event)
		}
		running := ""
		for _, j := range jobs.Running() {
			running += fmt.Sprintf("%d calls", j.Calls)
			if j.WaitingFor != "" {
				running += ", waits for " + j.WaitingFor
			}
			if j.LastError != nil {
				running += ", error " + j.LastError.Message
			}
		}
		if running != tc.running || len(jobs.Failed()) != tc.failed {
			t.Errorf("%s: found %q, and %d failed jobs", tc.reason, running, len(jobs.Failed()))
		}
	}
}

// Nothing that happens makes more than so much be remembered.
func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	jobs := NewJobs()
	for i := range maxRunning + 1 {
		jobs.Observe(jobOf(fmt.Sprint(i)), noon, telemetry.PickedUp{})
	}
	jobs.Observe(jobOf("0"), noon, telemetry.Waits{For: strings.Repeat("ü", maxText)})
	running := jobs.Running()
	if text := running[0].WaitingFor; len(running) != maxRunning || len(text) > maxText+len("…") || text == "" {
		t.Errorf("found %d jobs", len(running))
	}
	for i := range 3 * maxErrors {
		jobs.Observe(jobOf(fmt.Sprint(i)), noon.Add(time.Duration(i)), failed)
	}
	if found := jobs.Failed(); len(found) != maxErrors || found[0].Name != fmt.Sprint(3*maxErrors-1) {
		t.Errorf("expected the last %d, but found %d", maxErrors, len(found))
	}
}

// An error is no cause for alarm any more once the item has succeeded; that of another item, or a later one, is.
func TestErrorsThatArePast(t *testing.T) {
	t.Parallel()
	jobs := NewJobs()
	for _, step := range []struct {
		name  string
		event telemetry.Event
	}{{"b", failed}, {"a", failed}, {"a", succeeded}, {"a", failed}} {
		jobs.Observe(jobOf(step.name), noon, step.event)
	}
	var past []bool
	for _, job := range jobs.Failed() {
		past = append(past, job.SucceededSince)
	}
	if diff := cmp.Diff([]bool{false, true, false}, past); diff != "" {
		t.Errorf("succeeded since (-want +got):\n%s", diff)
	}
	sources := newSources()
	sources.Jobs = jobs
	page := ask(t, open(t, sources), http.MethodGet, "/", "localhost").Body.String()
	if n := strings.Count(page, "succeeded since"); n != 1 {
		t.Errorf("expected one error to be marked, but found %d", n)
	}
}
