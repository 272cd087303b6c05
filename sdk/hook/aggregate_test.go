package hook_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/hook"
)

func TestAggregate(t *testing.T) {
	t.Parallel()
	const (
		anyOther    = hook.BeforeReconcile
		should      = hook.ShouldReconcile
		responsible = hook.DuringResponsibilityCheck
	)
	zero, abort, requeue := &hook.Result{}, &hook.Result{AbortReconcile: true}, &hook.Result{Requeue: true}
	after := func(d time.Duration) *hook.Result { return &hook.Result{RequeueAfter: d} }
	both := &hook.Result{RequeueAfter: 1, AbortReconcile: true}
	odd := &hook.Result{Requeue: true, RequeueAfter: -1}
	type results = []*hook.Result
	cases := map[string]struct {
		reason   string
		hookType hook.Type
		results  results
		want     *hook.Result
	}{
		"no results": {"nothing was run, so nobody has an opinion", anyOther, nil, nil},
		// Rule (hooks.md#results): A list of nil results comes to nil.
		"only nil ones": {"results that are all nil come to nil", anyOther, results{nil, nil}, nil},
		"a zero one":    {"the zero result is an opinion", should, results{nil, zero}, zero},
		// Rule (hooks.md#results): A single non-nil result is copied.
		"a single one": {"a single result is copied", anyOther, results{nil, both, nil}, both},
		"as it is":     {"a single result is not tidied up", anyOther, results{odd}, odd},
		// Rule (hooks.md#results): `AbortReconcile` is ORed.
		"one aborts":  {"any hook can abort", anyOther, results{zero, abort, zero}, abort},
		"none aborts": {"nobody wants to abort", anyOther, results{zero, zero}, zero},
		// Rule (hooks.md#results): For `DuringResponsibilityCheck`, `AbortReconcile` is ANDed.
		"responsible":     {"one that does not abort enforces responsibility", responsible, results{abort, zero}, zero},
		"not responsible": {"all hooks abort", responsible, results{abort, abort}, abort},
		// Rule (hooks.md#results): For `ShouldReconcile`, `AbortReconcile` is ANDed.
		"enforced":     {"one hook that does not abort enforces a job", should, results{abort, zero}, zero},
		"not enforced": {"all hooks abort", should, results{abort, nil, abort}, abort},
		// Rule (hooks.md#results): `Requeue` is ORed.
		"one requeues":   {"any hook can requeue", anyOther, results{zero, requeue}, requeue},
		"check requeues": {"any hook can requeue, at a check too", should, results{requeue, zero}, requeue},
		// Rule (hooks.md#results): The smallest `RequeueAfter` above zero counts.
		"shortest time": {"the shortest time counts", anyOther, results{after(3), after(1), after(2)}, after(1)},
		"zero time":     {"zero is no time", anyOther, results{after(3), zero}, after(3)},
		"zero first":    {"zero is no time", anyOther, results{zero, after(3)}, after(3)},
		"negative time": {"a time below zero is none", anyOther, results{after(-1), after(3), after(-2)}, after(3)},
		"only negative": {"without a time above zero there is none", anyOther, results{after(-1), zero}, zero},
		// Rule (hooks.md#results): With `Requeue`, `RequeueAfter` becomes zero.
		"requeue wins":     {"at once is sooner than any time", anyOther, results{after(3), requeue, after(1)}, requeue},
		"requeue and time": {"at once is sooner than its own time", anyOther, results{odd, zero}, requeue},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := hook.Aggregate(tc.hookType, tc.results...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got != nil && got == tc.want {
				t.Error("the aggregate is one of the results, not a copy")
			}
		})
	}
}

func TestAggregateInAnyOrderAndStepByStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hookType := rapid.SampledFrom(hook.Types()).Draw(t, "type")
		// Times are drawn from a few, so that they are often equal, zero or below.
		results := rapid.SliceOfN(rapid.Ptr(rapid.Custom(func(t *rapid.T) hook.Result {
			return hook.Result{
				Requeue:        rapid.IntRange(0, 3).Draw(t, "requeue") == 0,
				RequeueAfter:   time.Duration(rapid.IntRange(-2, 4).Draw(t, "after")),
				AbortReconcile: rapid.Bool().Draw(t, "abort"),
			}
		}), true), 0, 6).Draw(t, "results")
		want := hook.Aggregate(hookType, results...)

		shuffled := rapid.Permutation(results).Draw(t, "order")
		if diff := cmp.Diff(want, hook.Aggregate(hookType, shuffled...)); diff != "" {
			t.Fatalf("in another order (-want +got):\n%s", diff)
		}
		cut := rapid.IntRange(0, len(results)).Draw(t, "cut")
		first, second := hook.Aggregate(hookType, results[:cut]...), hook.Aggregate(hookType, results[cut:]...)
		if diff := cmp.Diff(want, hook.Aggregate(hookType, first, second)); diff != "" {
			t.Fatalf("in two steps, cut at %d (-want +got):\n%s", cut, diff)
		}
	})
}
