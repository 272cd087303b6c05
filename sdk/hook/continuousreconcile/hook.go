// Package continuousreconcile gives a deployer schedules: a finished deploy item gets a new job at fixed times or
// intervals although nothing has changed, so that changes by hand are reverted.
//
// A deployer whose provider configuration has the field continuousReconcile registers it with one line:
//
//	hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(continuousreconcile.ReadSpec)))
//
// and says so with sdk.ScheduleInConfig, so that it is asked about no other item. A deployer with schedules elsewhere
// writes a NextFunc of its own. Nothing is kept in memory: when an item is due follows from the item alone, so a
// schedule outlives restarts and goes on at another replica, and a missed time comes once, later. The host may delay a
// job by its minimum interval and its jitter; see docs/hooks.md.
package continuousreconcile

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// ActiveAnnotation with the value "false" suspends the schedule of a deploy item without a change to its spec. Any
// other value has no effect.
const ActiveAnnotation = "continuousreconcile.extensions.landscaper.gardener.cloud/active"

// NextFunc returns the first due time of the item later than after; nil for never. It is called in each reconcile of a
// finished item, possibly for several items at once, and must not change the item.
type NextFunc func(ctx context.Context, after time.Time, item *v1alpha1.DeployItem) (*time.Time, error)

// Option changes how a hook works.
type Option func(*scheduler)

// WithClock makes the hook read the time from c; the system's clock by default.
func WithClock(c clock.PassiveClock) Option { return func(s *scheduler) { s.clock = c } }

// Setup couples Hook with its type.
func Setup(next NextFunc, opts ...Option) hook.Setup {
	return hook.Setup{Func: Hook(next, opts...), Types: []hook.Type{hook.ShouldReconcile}}
}

// Hook returns a hook function that enforces a job for a due item: at the first time of next after the start of the
// last job. Until then it asks for another reconcile at that time. It has no opinion about an item without a schedule,
// suspended by its annotation, in deletion, with an unfinished job, or without any job so far.
//
// The job itself moves the start, so a due time brings one job, and so do several missed ones.
func Hook(next NextFunc, opts ...Option) hook.Func {
	s := &scheduler{next: next, clock: clock.RealClock{}}
	for _, opt := range opts {
		opt(s)
	}
	return s.shouldReconcile
}

type scheduler struct {
	next  NextFunc
	clock clock.PassiveClock
}

func (s *scheduler) shouldReconcile(
	ctx context.Context, item *v1alpha1.DeployItem, _ *v1alpha1.Target, _ hook.Type,
) (*hook.Result, error) {
	if !schedulable(item) {
		return nil, nil //nolint:nilnil // no opinion
	}
	due, err := s.next(ctx, item.Status.LastReconcileTime.Time, item)
	if err != nil {
		return nil, fmt.Errorf("find the next time of the continuous reconciliation: %w", err)
	}
	if due == nil {
		return nil, nil //nolint:nilnil // no opinion
	}
	return decide(*due, s.clock.Now()), nil
}

func schedulable(item *v1alpha1.DeployItem) bool {
	return item != nil &&
		item.Annotations[ActiveAnnotation] != "false" &&
		item.DeletionTimestamp == nil &&
		item.Status.JobID == item.Status.JobIDFinished &&
		!item.Status.LastReconcileTime.IsZero()
}

func decide(due, now time.Time) *hook.Result {
	wait := due.Sub(now)
	if wait <= 0 {
		return &hook.Result{}
	}
	// A waiting host may count in milliseconds, and an early reconcile finds nothing due and is followed by another.
	if rest := wait % time.Millisecond; rest > 0 {
		wait = max(wait, wait-rest+time.Millisecond) // the greatest duration cannot be rounded up
	}
	return &hook.Result{AbortReconcile: true, RequeueAfter: wait}
}
