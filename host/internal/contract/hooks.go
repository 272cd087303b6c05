package contract

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The conditions about HTTP hooks, besides those reported by the hooks.
const (
	// ConditionHookAnswered: whether the last call of the item's HTTP hook had a good answer; the message is the
	// failure. Absent before the first failure, and again after a successful job.
	ConditionHookAnswered v1alpha1.ConditionType = "HookAnswered"
	// ConditionFinalized: the item's HTTP hook has agreed to its deletion and is not called for it again.
	ConditionFinalized v1alpha1.ConditionType = "Finalized"
)

const (
	reasonAnswered    = "Answered"
	reasonFinalized   = "HookFinalized"
	reasonNotReported = "NotReported"
	// reasonReported is the reason of a Ready condition that repeats a report of a hook.
	reasonReported = "HookReported"
)

// Report sets the conditions declared by an HTTP hook as the hook has reported them. Declared ones are Unknown at
// first, and stay as they are until the next report. Undeclared ones are ignored.
func Report(
	item *v1alpha1.DeployItem, declared []v1alpha1.ConditionType, reported []v1alpha1.Condition, now time.Time,
) {
	for _, conditionType := range declared {
		i := slices.IndexFunc(reported, func(c v1alpha1.Condition) bool { return c.Type == conditionType })
		switch {
		case i >= 0:
			c := reported[i]
			setCondition(&item.Status, conditionType, c.Status, c.Reason, c.Message, now, c.Codes...)
		case condition(&item.Status, conditionType) == nil:
			setCondition(&item.Status, conditionType, v1alpha1.ConditionUnknown, reasonNotReported,
				"the hook has not reported it yet", now)
		}
	}
}

// HookAnswered shows in the status a good answer of the HTTP hook after a bad one.
func HookAnswered(item *v1alpha1.DeployItem, now time.Time) {
	if condition(&item.Status, ConditionHookAnswered) != nil {
		setCondition(&item.Status, ConditionHookAnswered, v1alpha1.ConditionTrue, reasonAnswered,
			"the hook has answered", now)
	}
}

// HookFailed shows in the status a failed call of the HTTP hook.
func HookFailed(item *v1alpha1.DeployItem, e Error, now time.Time) {
	setCondition(&item.Status, ConditionHookAnswered, v1alpha1.ConditionFalse, e.Reason, e.Message, now)
}

// NoteFinalized notes in the status the agreement of a registration's HTTP hook to the item's deletion.
func NoteFinalized(item *v1alpha1.DeployItem, registration string, now time.Time) {
	setCondition(&item.Status, ConditionFinalized, v1alpha1.ConditionTrue, reasonFinalized, registration, now)
}

// IsFinalized reports whether the HTTP hook of a registration has agreed to the deletion of an item.
func IsFinalized(item *v1alpha1.DeployItem, registration string) bool {
	return named(&item.Status, ConditionFinalized) == registration
}
