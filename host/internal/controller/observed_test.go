package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/journal"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/observe"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// told has a bench tell what happens to jobs, and returns what that is, as far as a journal remembers it.
func (b *bench) told() *journal.Journal {
	remembered := journal.New(journal.Limits{})
	b.observed = observe.New(b.clock, remembered)
	return remembered
}

// timeline is a job's, without times.
func timeline(job journal.Job) []string {
	var lines []string
	for _, e := range job.Entries {
		lines = append(lines, strings.TrimSpace(e.Kind+" "+e.Message))
	}
	return lines
}

func TestWhatIsTold(t *testing.T) {
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
	succeeded := func() (*plugin.Outcome, error) { return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil }
	cases := map[string]struct {
		reason string
		answer answer
		modify func(*v1alpha1.DeployItem)
		drive  func(b *bench)
		want   []string
	}{
		"success": {
			reason: "from the pick-up to the end",
			answer: picky(func() (*plugin.Outcome, error) { return waits("the pod") }, succeeded),
			modify: func(item *v1alpha1.DeployItem) { item.Spec.Timeout = v1alpha1.NoDuration },
			drive:  func(b *bench) { b.setJob(); b.drive() },
			want: []string{
				"PickedUp", "Progress installing 1 of 2", "Call one Reconcile: inProgress", "Waits the pod",
				"Call one Reconcile: done", "Ended Succeeded",
			},
		},
		"retry": {
			reason: "an error that passes, and one that does not",
			answer: picky(func() (*plugin.Outcome, error) { return fails("Refused") }, func() (*plugin.Outcome, error) {
				return &plugin.Outcome{Errors: []plugin.Error{{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Message: "wrong"}}}, nil
			}),
			drive: func(b *bench) { b.setJob(); b.drive() },
			want: []string{
				"PickedUp", "Progress installing 1 of 2", "Call one Reconcile: failed", "Retries Refused",
				"Ended Failed: wrong",
			},
		},
		"crash": {
			reason: "a plugin that dies",
			answer: picky(func() (*plugin.Outcome, error) { return nil, plugin.ErrCrashed }, succeeded),
			drive:  func(b *bench) { b.setJob(); b.drive() },
			want: []string{
				"PickedUp", "Progress installing 1 of 2", "Call one Reconcile: crashed",
				`Retries the plugin "one" ended in the middle of the call (1 of 3); it is tried again when the plugin runs`,
				"Call one Reconcile: done", "Ended Succeeded",
			},
		},
		"timeout": {
			reason: "a job that ends without its deployer",
			answer: picky(func() (*plugin.Outcome, error) { return waits("the pod") }),
			modify: func(item *v1alpha1.DeployItem) { item.Spec.Timeout = "1m" },
			drive: func(b *bench) {
				b.setJob()
				b.look(b.t.Context())
				b.clock.Step(2 * time.Minute)
				b.drive()
			},
			want: []string{
				"PickedUp", "Progress installing 1 of 2", "Call one Reconcile: inProgress", "Waits the pod",
				"Ended Failed: the job took longer than spec.timeout allows; it was waiting for: the pod",
			},
		},
		"in line": {
			reason: "a job that waits for its turn",
			answer: picky(succeeded),
			drive: func(b *bench) {
				b.slots.take(keyOf(newDeployItem("other", "item")), own)
				b.setJob()
				b.look(b.t.Context())
				b.slots.giveBack()
				b.drive()
			},
			want: []string{
				"PickedUp waits for a free worker", "Turn there is a free worker", "Progress installing 1 of 2", "Call one Reconcile: done", "Ended Succeeded",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.answer, func(item *v1alpha1.DeployItem) {
				if tc.modify != nil {
					tc.modify(item)
				}
			})
			remembered := b.told()
			tc.drive(b)
			jobs := remembered.Jobs("", "")
			if len(jobs) != 1 || jobs[0].JobID != b.read().Status.JobID || jobs[0].Operation != "Reconcile" || jobs[0].Plugin != "one" {
				t.Fatalf("expected one job, but found %+v", jobs)
			}
			if diff := cmp.Diff(tc.want, timeline(jobs[0])); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if jobs[0].Phase != b.read().Status.Phase || jobs[0].Triggered.IsZero() || jobs[0].WaitingFor != "" {
				t.Errorf("%s: %+v", tc.reason, jobs[0])
			}
		})
	}
}

// TestHowLongAJobWasInLine: the time of this replica's clock counts, not the whole seconds of the status.
func TestHowLongAJobWasInLine(t *testing.T) {
	t.Parallel()
	b := newBench(t, succeeds)
	remembered := b.told()
	b.slots.take(keyOf(newDeployItem("other", "item")), own)
	b.setJob()
	b.look(t.Context())
	b.clock.Step(1300 * time.Millisecond)
	b.slots.giveBack()
	b.memory.turn(keyOf(b.item), b.clock.Now())
	b.drive()
	entries := remembered.Jobs("", "")[0].Entries
	i := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Kind == string(observe.KindTurn) })
	if i < 0 || entries[i].Took != 1300*time.Millisecond {
		t.Errorf("%+v", entries)
	}
}

// TestHooksAreTold: those of a look that comes to no job are no part of one.
func TestHooksAreTold(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.Start, sdkhook.BeforeReconcile})
	remembered := b.told()
	b.setJob()
	b.drive()
	want := []string{"Hook one Start: done", "PickedUp", "Hook one BeforeReconcile: done", "Call one Reconcile: done", "Ended Succeeded"}
	if diff := cmp.Diff(want, timeline(remembered.Jobs("", "")[0])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	b.touch(b.item)
	b.memory.forget(keyOf(b.item))
	b.look(t.Context())
	if jobs := remembered.Jobs("", ""); len(jobs) != 1 || len(jobs[0].Entries) != len(want) {
		t.Errorf("%+v", jobs)
	}
}

// TestOwnJobsAreTold: a job that is set here has its own id, and not that of the one before.
func TestOwnJobsAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, succeeds)
	remembered := b.told()
	b.setJob()
	b.drive()
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationForceReconcile)
	b.drive()
	jobs := remembered.Jobs("", "")
	if len(jobs) != 2 || jobs[0].JobID != b.read().Status.JobID || jobs[0].Phase == "" || jobs[1].Phase == "" {
		t.Fatalf("%+v", jobs)
	}
	b.remove(b.item)
	b.setJob()
	b.drive()
	if deleted := remembered.Jobs("", "")[0]; deleted.Operation != "Delete" || deleted.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("%+v", deleted)
	}
}

// TestLostLocksAreTold: the job goes on elsewhere, and is not under way here any more.
func TestLostLocksAreTold(t *testing.T) {
	t.Parallel()
	remembered := journal.New(journal.Limits{})
	stream := observe.New(clock.RealClock{}, remembered)
	key := lock.Key{Plugin: "one", Item: types.NamespacedName{Namespace: "ns", Name: "item"}, UID: "uid"}
	stream.Tell(observe.Job{Plugin: key.Plugin, Item: key.Item, UID: key.UID, ID: "job"}, observe.PickedUp{})
	c := &Controller{options: Options{Observed: stream}, router: newRouter(newMemory(), time.Now)}
	c.Lost(key)
	if job := remembered.Jobs("ns", "item")[0]; job.Ended.IsZero() || job.Phase != "" {
		t.Errorf("%+v", job)
	}
}
