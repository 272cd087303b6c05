package continuousreconcile_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

var (
	began   = time.Date(2025, 1, 1, 8, 0, 0, 0, time.UTC)
	forever = time.Duration(math.MaxInt64)
)

// finished is an item whose last job began at began and is done.
func finished(changes ...func(*v1alpha1.DeployItem)) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{}
	last := v1alpha1.NewTime(began)
	item.Status.JobID, item.Status.JobIDFinished, item.Status.LastReconcileTime = "job", "job", &last
	for _, change := range changes {
		change(item)
	}
	return item
}

func annotated(value string) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) {
		item.Annotations = map[string]string{"continuousreconcile.extensions.landscaper.gardener.cloud/active": value}
	}
}

// in is due a time after the last job.
func in(d time.Duration) continuousreconcile.NextFunc {
	return func(_ context.Context, after time.Time, _ *v1alpha1.DeployItem) (*time.Time, error) {
		due := after.Add(d)
		return &due, nil
	}
}

func never(context.Context, time.Time, *v1alpha1.DeployItem) (*time.Time, error) { return nil, nil }

func TestHook(t *testing.T) {
	t.Parallel()
	enforce := &hook.Result{}
	lookAfter := func(d time.Duration) *hook.Result { return &hook.Result{AbortReconcile: true, RequeueAfter: d} }
	broken := errors.New("the calendar is at the printer's")
	failing := func(context.Context, time.Time, *v1alpha1.DeployItem) (*time.Time, error) { return nil, broken }
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		item   *v1alpha1.DeployItem
		next   continuousreconcile.NextFunc
		passed time.Duration // since the last job began
		want   *hook.Result
	}{
		// Rule (hooks.md#continuous-reconcile): An item that is due gets a job.
		"due": {finished(), in(time.Hour), time.Hour, enforce},
		// Rule (hooks.md#continuous-reconcile): An item before its time is requeued for it.
		"not yet":      {finished(), in(time.Hour), time.Minute, lookAfter(59 * time.Minute)},
		"clock behind": {finished(), in(time.Hour), -time.Hour, lookAfter(2 * time.Hour)},
		// A job must not come too early.
		"almost":      {finished(), in(time.Hour), time.Hour - time.Nanosecond, lookAfter(ms)},
		"rounded up":  {finished(), in(time.Hour), time.Hour - 1500*time.Microsecond, lookAfter(2 * ms)},
		"not rounded": {finished(), in(time.Hour), time.Hour - 2*ms, lookAfter(2 * ms)},
		"end of time": {finished(), in(forever), 0, lookAfter(forever)},
		"never":       {finished(), never, 100 * time.Hour, nil},
		"error":       {finished(), failing, time.Hour, nil},
		// Rule (hooks.md#continuous-reconcile): The annotation `…/active: "false"` suspends the schedule.
		"suspended":       {finished(annotated("false")), in(time.Hour), 2 * time.Hour, nil},
		"active":          {finished(annotated("true")), in(time.Hour), 2 * time.Hour, enforce},
		"no item":         {nil, in(time.Hour), 2 * time.Hour, nil},
		"never had a job": {&v1alpha1.DeployItem{}, in(time.Hour), 2 * time.Hour, nil},
		"never began": {
			finished(func(item *v1alpha1.DeployItem) { item.Status.LastReconcileTime = nil }),
			in(time.Hour), 2 * time.Hour, nil,
		},
		// Rule (hooks.md#continuous-reconcile): A schedule does not disturb a running job.
		"under way": {
			finished(func(item *v1alpha1.DeployItem) { item.Status.JobID = "next" }), in(time.Hour), 2 * time.Hour, nil,
		},
		"being deleted": {
			finished(func(item *v1alpha1.DeployItem) { item.DeletionTimestamp = &metav1.Time{Time: began} }),
			in(time.Hour), 2 * time.Hour, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(began.Add(tc.passed))
			shouldReconcile := continuousreconcile.Hook(tc.next, continuousreconcile.WithClock(clock))
			got, err := shouldReconcile(t.Context(), tc.item, nil, hook.ShouldReconcile)
			if errors.Is(err, broken) != (name == "error") || err != nil && name != "error" {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Rule (hooks.md#continuous-reconcile): `every` counts from the start of the last job, whatever has set that.
func TestHookAsksWithStartOfLastJob(t *testing.T) {
	t.Parallel()
	item := finished()
	shouldReconcile := continuousreconcile.Hook(
		func(_ context.Context, after time.Time, asked *v1alpha1.DeployItem) (*time.Time, error) {
			if !after.Equal(began) || asked != item {
				t.Errorf("expected the item and %s, but it was asked with %s and %v", began, after, asked)
			}
			return nil, nil
		})
	if _, err := shouldReconcile(t.Context(), item, nil, hook.ShouldReconcile); err != nil {
		t.Fatal(err)
	}
}

// Rule (hooks.md#schedules-for-your-deployer): The extension is a `ShouldReconcile` hook, with a setup to register it.
func TestSetup(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(began.Add(time.Minute))
	hooks := hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(in(time.Hour), continuousreconcile.WithClock(clock)))
	if len(hooks) != 1 || len(hooks[hook.ShouldReconcile]) != 1 {
		t.Fatalf("expected one function at ShouldReconcile, but found %v", hooks)
	}
	got, err := hooks[hook.ShouldReconcile][0](t.Context(), finished(), nil, hook.ShouldReconcile)
	want := &hook.Result{AbortReconcile: true, RequeueAfter: 59 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("with the clock that it was given: error %v (-want +got):\n%s", err, diff)
	}
}

// An item that is looked at whenever it asks for it gets one job for each due time, and one for all that passed while
// nobody looked.
// Rule (hooks.md#continuous-reconcile): There is one job for each due time, and one for all missed ones.
func TestOneJobForEachDueTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.IntRange(1, 100).Draw(t, "every")) * time.Second
		clock := clocktesting.NewFakePassiveClock(began)
		shouldReconcile := continuousreconcile.Hook(in(every), continuousreconcile.WithClock(clock))
		item := finished()
		last := began
		for range 20 {
			late := time.Duration(rapid.IntRange(0, 300_000).Draw(t, "late")) * time.Millisecond
			result, err := shouldReconcile(context.Background(), item, nil, hook.ShouldReconcile)
			if err != nil {
				t.Fatal(err)
			}
			if !result.AbortReconcile {
				if clock.Now().Before(last.Add(every)) {
					t.Fatalf("a job at %s, but the last one began at %s", clock.Now(), last)
				}
				last = clock.Now().Truncate(time.Second) // as a status keeps it
				now := v1alpha1.NewTime(last)
				item.Status.LastReconcileTime = &now
				continue
			}
			clock.SetTime(clock.Now().Add(result.RequeueAfter))
			if due := last.Add(every); clock.Now().Before(due) || clock.Now().After(due.Add(time.Millisecond)) {
				t.Fatalf("it asks for a look at %s, but is due at %s", clock.Now(), due)
			}
			clock.SetTime(clock.Now().Add(late))
		}
	})
}
