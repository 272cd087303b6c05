package statuspage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/observe"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// jobOf is the job of a DeployItem of a name.
func jobOf(name string) observe.Job {
	return observe.Job{
		Plugin: "manifest", Item: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID("uid-" + name), ID: "job-" + name, Operation: "Reconcile",
	}
}

var (
	succeeded = observe.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded}
	failed    = observe.Ended{Phase: v1alpha1.DeployItemPhaseFailed, Error: &observe.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "NotReady", Text: "Deployment shop/web has not become available",
	}}
	waits = observe.Waits{For: "Deployment shop/web to be available"}
)

func TestJobs(t *testing.T) {
	t.Parallel()
	request := observe.Done{Work: observe.Work{Of: observe.KindRequest, Name: "GET x"}}
	call := observe.Done{Work: observe.Work{Of: observe.KindCall}}
	for _, tc := range []struct {
		reason  string
		events  []observe.Event
		running []string
		failed  int
	}{
		{reason: "a job that was picked up", events: []observe.Event{observe.PickedUp{}}, running: []string{"calls 0"}},
		{reason: "one that another replica had", events: []observe.Event{observe.TakenOver{}, call}, running: []string{"calls 1"}},
		{reason: "what it waits for", events: []observe.Event{observe.PickedUp{}, call, waits}, running: []string{"calls 1, waits for Deployment shop/web to be available"}},
		{reason: "what it does", events: []observe.Event{observe.PickedUp{}, observe.Progress{Step: "Install", Text: "1 of 2"}}, running: []string{"calls 0, waits for 1 of 2"}},
		{
			reason: "an error that is tried again", events: []observe.Event{waits, observe.Retries{Error: observe.Error{Text: "refused"}}},
			running: []string{"calls 0, error refused"},
		},
		{reason: "a job that has gone elsewhere", events: []observe.Event{observe.PickedUp{}, observe.Left{}}},
		{reason: "a job that has ended, with a request after it", events: []observe.Event{observe.PickedUp{}, succeeded, request}},
		{reason: "a job that has failed", events: []observe.Event{observe.PickedUp{}, failed}, failed: 1},
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
		jobs.Observe(jobOf(fmt.Sprint(i)), noon, observe.PickedUp{})
	}
	jobs.Observe(jobOf("0"), noon, observe.Waits{For: strings.Repeat("ü", maxText)})
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
		event observe.Event
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
	pages, err := newPages()
	if err != nil {
		t.Fatal(err)
	}
	page, err := render(pages.overview, overview{Status: sources.status()})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "succeeded since"); n != 1 {
		t.Errorf("expected one error to be marked, but found %d", n)
	}
}
