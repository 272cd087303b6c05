package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// due is a ShouldReconcile hook with a schedule: every so often after the last job.
func (b *hooked) due(every time.Duration) {
	b.plugin.OnHooks = func(_ context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error) {
		b.pass("asked")
		item := call.DeployItem
		if item.Status.LastReconcileTime == nil {
			return []plugin.HookOutcome{{}}, nil
		}
		wait := item.Status.LastReconcileTime.Add(every).Sub(b.clock.Now())
		return []plugin.HookOutcome{{Result: &sdkhook.Result{AbortReconcile: wait > 0, RequeueAfter: max(wait, 0)}}}, nil
	}
}

// TestScheduledJobs: a hook has jobs begin in time, each with an ID of its own, and nothing else happens between them.
// A hook that wants them more often than the host allows is reported once.
func TestScheduledJobs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ every, minimum, interval time.Duration }{
		"as the hook wants":  {every: time.Minute, interval: time.Minute},
		"as the host allows": {every: time.Second, minimum: 10 * time.Second, interval: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 50
			b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
			b.due(tc.every)
			b.set(func(p *parts) { p.options.MinimumInterval = tc.minimum })
			landscapers := b.setJob()
			seen, last := map[string]bool{}, b.clock.Now()
			for len(seen) < jobs {
				calls := len(b.calls)
				b.clock.Step(b.reconcile(t.Context()))
				if len(b.calls) == calls {
					continue
				}
				item := b.read()
				began := item.Status.LastReconcileTime.Time
				if gap := began.Sub(last); len(seen) > 0 && (gap < tc.interval || gap > tc.interval+2*time.Second) {
					t.Fatalf("a job began %s after the last", gap)
				}
				if jobID := item.Status.JobID; seen[jobID] || (jobID == landscapers) == sdkhook.AskedFor(item) {
					t.Fatalf("the job %s has run before: %t, a hook has asked for it: %t", jobID, seen[jobID], sdkhook.AskedFor(item))
				}
				seen[item.Status.JobID], last = true, began
			}
			if asked := len(b.passed) - len(b.calls); asked > 3*jobs {
				t.Errorf("the hooks were asked %d times for %d jobs", asked, jobs)
			}
			heard := strings.Count(fmt.Sprint(b.recorded()), "ReconcileIntervalRaised")
			if heard != map[bool]int{true: 1}[tc.minimum > 0] {
				t.Errorf("found %d events about the interval", heard)
			}
		})
	}
}

// TestHooksStopNoNeededJob: a job that is set is done, whatever the hook says. One that fails is asked again, as
// nothing is known of what it wants.
// Rule (hooks.md#results): `ShouldReconcile` stops no needed job.
func TestHooksStopNoNeededJob(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"it aborts": nil, "it fails": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
			b.results[sdkhook.ShouldReconcile], b.failing[sdkhook.ShouldReconcile] = &sdkhook.Result{AbortReconcile: true}, err
			jobID := b.setJob()
			b.reconcile(t.Context())
			if item := b.read(); item.Status.JobIDFinished != jobID || item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Error(describe(item))
			}
			if b.reconcile(t.Context()); (len(b.errs) == 1) != (err != nil) {
				t.Errorf("found the errors %v", b.errs)
			}
		})
	}
}

// TestHooksAreAskedWhenTheItemChanges: a hook can have the first job set, and is asked again when an annotation
// changes.
// Rule (hooks.md#results): `ShouldReconcile` with `AbortReconcile: false` has a finished item reconciled.
func TestHooksAreAskedWhenTheItemChanges(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.drive()
	b.expectPassed("it is new", "ShouldReconcile")
	if wait := b.reconcile(t.Context()); wait != 0 {
		t.Errorf("reconciled again after %s", wait)
	}
	b.expectPassed("it was asked, and nothing has changed")
	b.annotate(b.item, "example.extensions.landscaper.gardener.cloud/active", "false")
	b.results[sdkhook.ShouldReconcile] = &sdkhook.Result{}
	b.reconcile(t.Context())
	b.expectPassed("it has changed", "ShouldReconcile", "call Reconcile")
}

// TestHopelessHooksAreNotAskedAgain: an error that no retry can mend waits for a change of the item.
func TestHopelessHooksAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	b, asked := newBench(t, done), 0
	hook(b.plugin, func() (*sdkhook.Result, error) {
		asked++
		return nil, plugin.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Message: "no such schedule"}
	}, sdkhook.ShouldReconcile)
	for range 3 {
		if wait := b.reconcile(t.Context()); wait != 0 || asked != 1 {
			t.Errorf("asked %d times, next reconcile after %s", asked, wait)
		}
	}
	if len(b.events.Events) != 1 {
		t.Errorf("expected one event, but found %d", len(b.events.Events))
	}
	b.touch(b.item)
	if b.reconcile(t.Context()); asked != 2 {
		t.Errorf("asked %d times after a change", asked)
	}
}

func TestOffset(t *testing.T) {
	t.Parallel()
	const jitter, items, parts = time.Hour, 10000, 10
	var counts [parts]int
	for range items {
		one := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uuid.NewString())}}
		own := offset(one, jitter)
		if own < 0 || own >= jitter || own != offset(one, jitter) || offset(one, 0) != 0 {
			t.Fatalf("unexpected offset: %s", own)
		}
		counts[own*parts/jitter]++
	}
	if slices.Min(counts[:]) < items/parts/2 || slices.Max(counts[:]) > items/parts*2 {
		t.Errorf("the items are not spread: %v", counts)
	}
}

// TestJitter: a job that is due begins later, by the item's own time, also if it became due while no host ran.
func TestJitter(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.due(time.Minute)
	b.set(func(p *parts) { p.options.Jitter = time.Hour })
	b.setJob()
	b.reconcile(t.Context())
	item := b.read()
	offset := offset(item, b.options.Jitter)
	wait := b.reconcile(t.Context())
	if want := time.Minute + offset; wait < want-2*time.Second || wait > want+time.Second {
		t.Errorf("expected the next reconcile after %s, but found %s", want, wait)
	}
	b.memory.Forget(client.ObjectKeyFromObject(item)) // another host
	b.clock.Step(2 * time.Hour)
	if wait = b.reconcile(t.Context()); wait != offset || len(b.calls) != 1 {
		t.Errorf("expected a job after %s, but found %s, calls %v", offset, wait, b.calls)
	}
	b.clock.Step(wait)
	if b.reconcile(t.Context()); len(b.calls) != 2 {
		t.Errorf("expected a job, but found %v", b.calls)
	}
	b.set(func(p *parts) { p.options.MinimumInterval = 3 * time.Hour })
	b.memory.Forget(client.ObjectKeyFromObject(item))
	b.clock.Step(time.Hour)
	earliest := b.read().Status.LastReconcileTime.Add(3 * time.Hour).Sub(b.clock.Now())
	if wait = b.reconcile(t.Context()); wait != earliest+offset || len(b.calls) != 2 {
		t.Errorf("expected a job after %s, but found %s, calls %v", earliest+offset, wait, b.calls)
	}
}

// TestItemsWithoutSchedule: a plugin that has its schedules in the provider configuration is asked about no item that
// has none there: neither after a job, nor when it was listed, nor when it has changed.
// Rule (hooks.md#when-they-run): A plugin with `ScheduleInConfig` is asked about no item without a schedule.
func TestItemsWithoutSchedule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config *runtime.RawExtension
		want   []string
	}{
		"no configuration": {nil, nil},
		"no schedule":      {raw(`{"manifests":[]}`), nil},
		"a schedule":       {raw(`{"continuousReconcile":{"every":"1h"}}`), []string{"ShouldReconcile"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile},
				func(item *v1alpha1.DeployItem) { item.Spec.Config = tc.config })
			b.plugin.Capabilities.ScheduleInConfig = true
			b.setJob()
			b.drive()
			b.expectPassed("after a job", slices.Concat(tc.want, []string{"call Reconcile"}, tc.want)...)
			b.memory.Forget(client.ObjectKeyFromObject(b.item))
			b.reconcile(t.Context())
			b.expectPassed("when it was listed", tc.want...)
			b.touch(b.item)
			b.reconcile(t.Context())
			b.expectPassed("when it has changed", tc.want...)
			b.reconcile(t.Context())
			b.expectPassed("when nothing has changed")
		})
	}
}
