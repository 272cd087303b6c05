package hook

import "time"

// Types returns all types of hooks, in the host's order of running them.
func Types() []Type {
	return []Type{
		Start, DuringResponsibilityCheck, AfterResponsibilityCheck, ShouldReconcile, BeforeAnyReconcile,
		BeforeAbort, BeforeForceReconcile, BeforeDelete, BeforeReconcile, End,
	}
}

// Aggregate makes one Result of those of several hooks of a type, by the rules of Landscaper's deployer library:
//
//   - Of none but nil ones it is nil.
//   - Of a single non-nil one it is a copy, as it is.
//   - Otherwise any AbortReconcile aborts. For the two checks, DuringResponsibilityCheck and ShouldReconcile, all of
//     them must, because there false enforces.
//   - Any Requeue requeues. RequeueAfter is then zero, otherwise the shortest one above zero.
//
// Results can be aggregated in any order and step by step.
func Aggregate(t Type, results ...*Result) *Result {
	var all *Result
	for _, result := range results {
		switch {
		case result == nil:
		case all == nil:
			only := *result
			all = &only
		default:
			all.add(t, *result)
		}
	}
	return all
}

// add aggregates another result to r.
func (r *Result) add(t Type, other Result) {
	if t == DuringResponsibilityCheck || t == ShouldReconcile {
		r.AbortReconcile = r.AbortReconcile && other.AbortReconcile
	} else {
		r.AbortReconcile = r.AbortReconcile || other.AbortReconcile
	}
	r.Requeue = r.Requeue || other.Requeue
	if r.Requeue {
		r.RequeueAfter = 0
	} else {
		r.RequeueAfter = shorter(r.RequeueAfter, other.RequeueAfter)
	}
}

// shorter returns the shorter of two times among those above zero, and zero if there is none.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || (0 < b && b < a) {
		a = b
	}
	return max(a, 0)
}
