package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// recorder has the reports of jobs.
type recorder struct {
	mu     sync.Mutex
	ids    map[string]bool
	job    telemetry.Job // of the last report
	events []telemetry.Event
}

func (o *recorder) Observe(job telemetry.Job, _ time.Time, event telemetry.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids[job.ID], o.job, o.events = true, job, append(o.events, event)
}

// record has a bench report what happens to jobs.
func (b *bench) record() *recorder {
	o := &recorder{ids: map[string]bool{}}
	b.set(func(p *parts) { p.options.Observed = telemetry.NewStream(b.clock, nil, o) })
	return o
}

// timeline is a line for each event.
func (o *recorder) timeline() []string {
	var lines []string
	for _, event := range o.events {
		line := ""
		switch e := event.(type) {
		case telemetry.PickedUp:
			line = fmt.Sprintf("PickedUp queued=%t", e.Queued)
		case telemetry.Dequeued:
			line = fmt.Sprint("Dequeued ", e.Waited)
		case telemetry.Progress:
			line = "Progress " + e.Text
		case telemetry.Waits:
			line = "Waits " + e.For
		case telemetry.Done:
			line = string(e.Of) + " " + e.By + " " + e.Name + ": " + e.Result
		case telemetry.Ended:
			line = "Ended " + string(e.Phase)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestReportsOfAJob(t *testing.T) {
	t.Parallel()
	picky := func(results ...func() (*plugin.Outcome, error)) answer {
		return func(_ context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
			o.Progress("Install", "installing 1 of 2")
			o.Progress("Install", "installing 2 of 2") // too soon
			next := results[0]
			results = results[1:]
			return next()
		}
	}
	for name, tc := range map[string]struct {
		reason string
		answer answer
		drive  func(b *bench)
		want   []string
	}{
		"success": {
			reason: "from the pick-up to the end",
			answer: picky(func() (*plugin.Outcome, error) { return waits("the pod") }, succeeded),
			drive:  func(b *bench) { b.setJob(); b.drive() },
			want: []string{
				"PickedUp queued=false", "Progress installing 1 of 2", "Call one Reconcile: inProgress", "Waits the pod",
				"Progress installing 1 of 2", "Call one Reconcile: done", "Ended Succeeded",
			},
		},
		"in line": {
			reason: "a job that waits for a slot",
			answer: picky(succeeded),
			drive: func(b *bench) {
				b.slots.Acquire(anotherItem, slots.Share{}, slots.Preferred)
				b.setJob()
				b.clock.Step(queuedAfter)
				b.reconcile(b.t.Context())
				b.clock.Step(1300 * time.Millisecond)
				b.slots.Release(anotherItem)
				b.slots.EndReconcile(anotherItem, false)
				b.drive()
			},
			want: []string{
				"PickedUp queued=true", "Dequeued 1.3s", "Progress installing 1 of 2", "Call one Reconcile: done",
				"Ended Succeeded",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.answer, withTimeout(v1alpha1.NoDuration))
			o := b.record()
			tc.drive(b)
			if len(o.ids) != 1 || o.job.ID != b.read().Status.JobID || o.job.Operation != "Reconcile" || o.job.Plugin != "one" {
				t.Fatalf("expected one job, but found %v, %+v", o.ids, o.job)
			}
			if diff := cmp.Diff(tc.want, o.timeline()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			ended, _ := o.events[len(o.events)-1].(telemetry.Ended)
			if ended.Phase != b.read().Status.Phase || ended.Triggered.IsZero() {
				t.Errorf("%s: %+v", tc.reason, ended)
			}
		})
	}
}

// TestLostLocksAreReported: the job goes on elsewhere, and is not under way here any more.
func TestLostLocksAreReported(t *testing.T) {
	t.Parallel()
	o := &recorder{ids: map[string]bool{}}
	stream := telemetry.NewStream(clock.RealClock{}, nil, o)
	key := lock.Key{Plugin: "one", Item: types.NamespacedName{Namespace: "ns", Name: "item"}, UID: "uid"}
	router := intake.NewRouter(intake.Options{Memory: itemstate.NewMemory()})
	c := &Controller{options: Options{Observed: stream}, router: router}
	c.Lost(key)
	want := telemetry.Job{Plugin: key.Plugin, Item: key.Item, UID: key.UID}
	if o.job != want || !slices.Equal(o.events, []telemetry.Event{telemetry.Left{}}) {
		t.Errorf("expected that the job is left, but found %+v of %+v", o.events, o.job)
	}
}
