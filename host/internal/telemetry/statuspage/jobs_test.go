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
		Plugin: "manifest", Item: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID("uid-" + name), ID: "job-" + name, Operation: "Reconcile",
	}
}

var (
	succeeded = telemetry.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded}
	failed    = telemetry.Ended{Phase: v1alpha1.DeployItemPhaseFailed, Error: &telemetry.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "NotReady", Text: "Deployment shop/web has not become available",
	}}
	waits = telemetry.Waits{For: "Deployment shop/web to be available"}
)

func TestJobs(t *testing.T) {
	t.Parallel()
	request := telemetry.Done{Work: telemetry.Work{Of: telemetry.KindRequest, Name: "GET x"}}
	call := telemetry.Done{Work: telemetry.Work{Of: telemetry.KindCall}}
	for _, tc := range []struct {
		reason  string
		events  []telemetry.Event
		running []string
		failed  int
	}{
		{reason: "a job that was picked up", events: []telemetry.Event{telemetry.PickedUp{}}, running: []string{"calls 0"}},
		{reason: "one that another replica had", events: []telemetry.Event{telemetry.TakenOver{}, call}, running: []string{"calls 1"}},
		{reason: "what it waits for", events: []telemetry.Event{telemetry.PickedUp{}, call, waits}, running: []string{"calls 1, waits for Deployment shop/web to be available"}},
		{reason: "what it does", events: []telemetry.Event{telemetry.PickedUp{}, telemetry.Progress{Step: "Install", Text: "1 of 2"}}, running: []string{"calls 0, waits for 1 of 2"}},
		{
			reason: "an error that is tried again", events: []telemetry.Event{waits, telemetry.Retries{Error: telemetry.Error{Text: "refused"}}},
			running: []string{"calls 0, error refused"},
		},
		{reason: "a job that has gone elsewhere", events: []telemetry.Event{telemetry.PickedUp{}, telemetry.Left{}}},
		{reason: "a job that has ended, with a request after it", events: []telemetry.Event{telemetry.PickedUp{}, succeeded, request}},
		{reason: "a job that has failed", events: []telemetry.Event{telemetry.PickedUp{}, failed}, failed: 1},
	} {
		jobs := NewJobs()
		for _, event := range tc.events {
			jobs.Observe(jobOf("web"), noon, event)
		}
		var running []string
		for _, j := range jobs.Running() {
			text := fmt.Sprintf("calls %d", j.Calls)
			if j.WaitingFor != "" {
				text += ", waits for " + j.WaitingFor
			}
			if j.LastError != nil {
				text += ", error " + j.LastError.Message
			}
			running = append(running, text)
		}
		if diff := cmp.Diff(tc.running, running); diff != "" || len(jobs.Failed()) != tc.failed {
			t.Errorf("%s: found %d failed jobs, and running (-want +got):\n%s", tc.reason, len(jobs.Failed()), diff)
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
	if running := jobs.Running(); len(running) != maxRunning || len(running[0].WaitingFor) > maxText+len("…") || running[0].WaitingFor == "" {
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
	page := get(t, http.MethodGet, serve(t, sources)+"/", "").body
	if n := strings.Count(page, "succeeded since"); n != 1 {
		t.Errorf("expected one error to be marked, but found %d", n)
	}
}
