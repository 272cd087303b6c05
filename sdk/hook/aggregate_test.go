package hook_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/hook"
)

func TestAggregate(t *testing.T) {
	t.Parallel()
	const anyOther = hook.BeforeReconcile
	cases := map[string]struct {
		reason   string
		hookType hook.Type
		results  []*hook.Result
		want     *hook.Result
	}{
		"no results":    {"nothing was run, so nobody has an opinion", anyOther, nil, nil},
		"only nil ones": {"results that are all nil come to nil", anyOther, []*hook.Result{nil, nil}, nil},
		"a zero one":    {"the zero result is an opinion", hook.ShouldReconcile, []*hook.Result{nil, {}}, &hook.Result{}},
		"a single one": {
			"a single result is copied", anyOther, []*hook.Result{nil, {RequeueAfter: 1, AbortReconcile: true}, nil},
			&hook.Result{RequeueAfter: 1, AbortReconcile: true},
		},
		"as it is": {
			"a single result is not tidied up", anyOther, []*hook.Result{{Requeue: true, RequeueAfter: -1}},
			&hook.Result{Requeue: true, RequeueAfter: -1},
		},
		"one aborts": {
			"any hook can abort", anyOther, []*hook.Result{{}, {AbortReconcile: true}, {}}, &hook.Result{AbortReconcile: true},
		},
		"none aborts": {"nobody wants to abort", anyOther, []*hook.Result{{}, {}}, &hook.Result{}},
		"responsible": {
			"one hook that does not abort enforces responsibility", hook.DuringResponsibilityCheck,
			[]*hook.Result{{AbortReconcile: true}, {}}, &hook.Result{},
		},
		"not responsible": {
			"all hooks abort", hook.DuringResponsibilityCheck, []*hook.Result{{AbortReconcile: true}, {AbortReconcile: true}},
			&hook.Result{AbortReconcile: true},
		},
		"enforced": {
			"one hook that does not abort enforces a job", hook.ShouldReconcile, []*hook.Result{{AbortReconcile: true}, {}},
			&hook.Result{},
		},
		"not enforced": {
			"all hooks abort", hook.ShouldReconcile, []*hook.Result{{AbortReconcile: true}, nil, {AbortReconcile: true}},
			&hook.Result{AbortReconcile: true},
		},
		"one requeues": {
			"any hook can requeue", anyOther, []*hook.Result{{}, {Requeue: true}}, &hook.Result{Requeue: true},
		},
		"check requeues": {
			"any hook can requeue, at a check too", hook.ShouldReconcile, []*hook.Result{{Requeue: true}, {}},
			&hook.Result{Requeue: true},
		},
		"shortest time": {
			"the shortest time counts", anyOther, []*hook.Result{{RequeueAfter: 3}, {RequeueAfter: 1}, {RequeueAfter: 2}},
			&hook.Result{RequeueAfter: 1},
		},
		"zero time": {
			"zero is no time", anyOther, []*hook.Result{{RequeueAfter: 3}, {}}, &hook.Result{RequeueAfter: 3},
		},
		"negative time": {
			"a time below zero is none", anyOther, []*hook.Result{{RequeueAfter: -1}, {RequeueAfter: 3}, {RequeueAfter: -2}},
			&hook.Result{RequeueAfter: 3},
		},
		"only negative": {
			"without a time above zero there is none", anyOther, []*hook.Result{{RequeueAfter: -1}, {}}, &hook.Result{},
		},
		"requeue wins": {
			"at once is sooner than any time", anyOther, []*hook.Result{{RequeueAfter: 3}, {Requeue: true}, {RequeueAfter: 1}},
			&hook.Result{Requeue: true},
		},
		"requeue and time": {
			"at once is sooner than the time of the same hook", anyOther, []*hook.Result{{Requeue: true, RequeueAfter: 3}, {}},
			&hook.Result{Requeue: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, hook.Aggregate(tc.hookType, tc.results...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// model says the rules once more, each for itself and over all results at a time.
func model(hookType hook.Type, results []*hook.Result) *hook.Result {
	var opinions []hook.Result
	for _, result := range results {
		if result != nil {
			opinions = append(opinions, *result)
		}
	}
	switch len(opinions) {
	case 0:
		return nil
	case 1:
		return &opinions[0]
	}
	aborts := func(r hook.Result) bool { return r.AbortReconcile }
	goesOn := func(r hook.Result) bool { return !r.AbortReconcile }
	all := &hook.Result{
		Requeue:        slices.ContainsFunc(opinions, func(r hook.Result) bool { return r.Requeue }),
		AbortReconcile: slices.ContainsFunc(opinions, aborts),
	}
	if slices.Contains([]hook.Type{hook.DuringResponsibilityCheck, hook.ShouldReconcile}, hookType) {
		all.AbortReconcile = !slices.ContainsFunc(opinions, goesOn)
	}
	var times []time.Duration
	for _, r := range opinions {
		if r.RequeueAfter > 0 {
			times = append(times, r.RequeueAfter)
		}
	}
	if !all.Requeue && len(times) > 0 {
		all.RequeueAfter = slices.Min(times)
	}
	return all
}

// drawResults draws times from a few, so that they are often equal, zero or below.
func drawResults(t *rapid.T) []*hook.Result {
	return rapid.SliceOfN(rapid.Ptr(rapid.Custom(func(t *rapid.T) hook.Result {
		return hook.Result{
			Requeue:        rapid.IntRange(0, 3).Draw(t, "requeue") == 0,
			RequeueAfter:   time.Duration(rapid.IntRange(-2, 4).Draw(t, "after")),
			AbortReconcile: rapid.Bool().Draw(t, "abort"),
		}
	}), true), 0, 6).Draw(t, "results")
}

func copies(results []*hook.Result) []*hook.Result {
	out := make([]*hook.Result, len(results))
	for i, result := range results {
		if result != nil {
			value := *result
			out[i] = &value
		}
	}
	return out
}

func TestAggregateFollowsItsRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hookType := rapid.SampledFrom(hook.Types()).Draw(t, "type")
		results := drawResults(t)
		before := copies(results)

		got := hook.Aggregate(hookType, results...)
		if diff := cmp.Diff(model(hookType, results), got); diff != "" {
			t.Fatalf("by the rules (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, results); diff != "" {
			t.Fatalf("the results were changed (-before +after):\n%s", diff)
		}
		if got != nil && slices.Contains(results, got) {
			t.Fatal("the aggregate is one of the results, not a copy")
		}
	})
}

func TestAggregateInAnyOrderAndStepByStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hookType := rapid.SampledFrom(hook.Types()).Draw(t, "type")
		results := drawResults(t)
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
