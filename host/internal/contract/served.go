package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// SetUnserved shows in the status that no plugin serves the item's type. The message names the served types.
func SetUnserved(item *v1alpha1.DeployItem, message string, now time.Time) {
	setCondition(&item.Status, ConditionServed, v1alpha1.ConditionFalse, ReasonTypeNotServed, message, now)
	// kubectl get prints Ready.
	if condition(&item.Status, ConditionReady) == nil {
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionFalse, ReasonTypeNotServed, message, now)
	}
}

// SetServed removes the conditions of SetUnserved.
func SetServed(item *v1alpha1.DeployItem) {
	removeConditions(&item.Status, ConditionServed)
	if ready := condition(&item.Status, ConditionReady); ready != nil && ready.Reason == ReasonTypeNotServed {
		removeConditions(&item.Status, ConditionReady)
	}
}

// Unserved is the message of SetUnserved; empty if there is none.
func Unserved(item *v1alpha1.DeployItem) string { return named(&item.Status, ConditionServed) }

// ReasonTypeNotServed is the reason of ConditionServed, and of its event.
const ReasonTypeNotServed = "TypeNotServed"
