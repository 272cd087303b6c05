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
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		next   continuousreconcile.NextFunc
		passed time.Duration // since the last job began
		want   *hook.Result
	}{
		"due": {"the time has come", finished(), in(time.Hour), time.Hour, enforce},
		"not yet": {
			"the item is reconciled when it is due", finished(), in(time.Hour), time.Minute, lookAfter(59 * time.Minute),
		},
		"clock behind": {
			"the last job began in the future of this clock", finished(), in(time.Hour), -time.Hour, lookAfter(2 * time.Hour),
		},
		"almost": {
			"a reconcile must not come too early", finished(), in(time.Hour), time.Hour - time.Nanosecond,
			lookAfter(time.Millisecond),
		},
		"rounded up": {
			"a reconcile must not come too early", finished(), in(time.Hour), time.Hour - 1500*time.Microsecond,
			lookAfter(2 * time.Millisecond),
		},
		"not rounded": {
			"whole milliseconds stay", finished(), in(time.Hour), time.Hour - 2*time.Millisecond,
			lookAfter(2 * time.Millisecond),
		},
		"end of time": {"what cannot be rounded up stays", finished(), in(forever), 0, lookAfter(forever)},
		"never":       {"without a next time there is no opinion", finished(), never, 100 * time.Hour, nil},
		"suspended": {
			"the annotation suspends the schedule", finished(annotated("false")), in(time.Hour), 2 * time.Hour, nil,
		},
		"active":          {"no other value suspends it", finished(annotated("true")), in(time.Hour), 2 * time.Hour, enforce},
		"no item":         {"there is nothing to reconcile", nil, in(time.Hour), 2 * time.Hour, nil},
		"never had a job": {"the first job is somebody else's", &v1alpha1.DeployItem{}, in(time.Hour), 2 * time.Hour, nil},
		"never began": {
			"a job that was not picked up has no start",
			finished(func(item *v1alpha1.DeployItem) { item.Status.LastReconcileTime = nil }),
			in(time.Hour), 2 * time.Hour, nil,
		},
		"under way": {
			"a job is running",
			finished(func(item *v1alpha1.DeployItem) { item.Status.JobID = "next" }), in(time.Hour), 2 * time.Hour, nil,
		},
		"being deleted": {
			"a deletion is not a reconciliation",
			finished(func(item *v1alpha1.DeployItem) { item.DeletionTimestamp = &metav1.Time{Time: began} }),
			in(time.Hour), 2 * time.Hour, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(began.Add(tc.passed))
			shouldReconcile := continuousreconcile.Hook(tc.next, continuousreconcile.WithClock(clock))
			got, err := shouldReconcile(t.Context(), tc.item, nil, hook.ShouldReconcile)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHookReportsErrorOfNext(t *testing.T) {
	t.Parallel()
	broken := errors.New("the calendar is at the printer's")
	shouldReconcile := continuousreconcile.Hook(
		func(context.Context, time.Time, *v1alpha1.DeployItem) (*time.Time, error) { return nil, broken })
	result, err := shouldReconcile(t.Context(), finished(), nil, hook.ShouldReconcile)
	if !errors.Is(err, broken) || result != nil {
		t.Errorf("expected the error and no result, but found %v and %+v", err, result)
	}
}

func TestHookAsksWithStartOfLastJob(t *testing.T) {
	t.Parallel()
	item := finished()
	var after time.Time
	var asked *v1alpha1.DeployItem
	shouldReconcile := continuousreconcile.Hook(
		func(_ context.Context, a time.Time, i *v1alpha1.DeployItem) (*time.Time, error) {
			after, asked = a, i
			return nil, nil
		})
	if _, err := shouldReconcile(t.Context(), item, nil, hook.ShouldReconcile); err != nil {
		t.Fatal(err)
	}
	if !after.Equal(began) || asked != item {
		t.Errorf("expected the item and %s, but it was asked with %s and %v", began, after, asked)
	}
}

func TestSetup(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(began.Add(time.Minute))
	hooks := hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(in(time.Hour), continuousreconcile.WithClock(clock)))
	if len(hooks) != 1 || len(hooks[hook.ShouldReconcile]) != 1 {
		t.Fatalf("expected one function at ShouldReconcile, but found %v", hooks)
	}
	got, err := hooks[hook.ShouldReconcile][0](t.Context(), finished(), nil, hook.ShouldReconcile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&hook.Result{AbortReconcile: true, RequeueAfter: 59 * time.Minute}, got); diff != "" {
		t.Errorf("with the clock that it was given (-want +got):\n%s", diff)
	}
}

// An item that is looked at whenever it asks for it gets one job for each due time, and one for all that passed while
// nobody looked.
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
