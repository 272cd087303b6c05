package contract

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The conditions about HTTP hooks, besides those that hooks report themselves.
const (
	// ConditionHookAnswered: whether the last call of the item's HTTP hook had a good answer; the message says what was
	// wrong. Absent as long as nothing was wrong, and again when a job succeeds all the same.
	ConditionHookAnswered v1alpha1.ConditionType = "HookAnswered"
	// ConditionFinalized: the item's HTTP hook has agreed to its deletion, so that it is not asked again.
	ConditionFinalized v1alpha1.ConditionType = "Finalized"
)

const (
	reasonAnswered    = "Answered"
	reasonFinalized   = "HookFinalized"
	reasonNotReported = "NotReported"
	// reasonReported is that of a Ready condition which says what a hook has reported.
	reasonReported = "HookReported"
)

// Report sets the conditions that an HTTP hook declares to those that it has reported. Declared ones are Unknown at
// first, and stay as they are until they are reported again. Undeclared ones are ignored.
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

// HookAnswered shows in the status that the HTTP hook has given a good answer, if an earlier one was not.
func HookAnswered(item *v1alpha1.DeployItem, now time.Time) {
	if condition(&item.Status, ConditionHookAnswered) != nil {
		setCondition(&item.Status, ConditionHookAnswered, v1alpha1.ConditionTrue, reasonAnswered,
			"the hook has answered", now)
	}
}

// HookFailed shows in the status that the HTTP hook has given no good answer.
func HookFailed(item *v1alpha1.DeployItem, e Error, now time.Time) {
	setCondition(&item.Status, ConditionHookAnswered, v1alpha1.ConditionFalse, e.Reason, e.Message, now)
}

// NoteFinalized notes in the status that the HTTP hook of a registration has agreed to the item's deletion.
func NoteFinalized(item *v1alpha1.DeployItem, registration string, now time.Time) {
	setCondition(&item.Status, ConditionFinalized, v1alpha1.ConditionTrue, reasonFinalized, registration, now)
}

// IsFinalized reports whether the HTTP hook of a registration has agreed to the deletion of an item.
func IsFinalized(item *v1alpha1.DeployItem, registration string) bool {
	return named(&item.Status, ConditionFinalized) == registration
}
