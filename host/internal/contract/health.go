package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonUnhealthy is the reason of ConditionReady of a deployed item with objects that are not healthy any more.
const ReasonUnhealthy = "Unhealthy"

// IsDeployed reports whether the last job of an item has deployed its current spec.
func IsDeployed(item *v1alpha1.DeployItem) bool {
	return Finished(item) && item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded && item.DeletionTimestamp == nil &&
		item.Generation == item.Status.ObservedGeneration
}

// IsUnhealthy reports whether the status shows deployed objects that are not healthy any more.
func IsUnhealthy(item *v1alpha1.DeployItem) bool { return shownLack(&item.Status) != "" }

// shownLack is the text of ShowHealth in a status; empty for none.
func shownLack(status *v1alpha1.DeployItemStatus) string {
	if ready := condition(status, ConditionReady); ready != nil && ready.Reason == ReasonUnhealthy {
		return ready.Message
	}
	return ""
}

// ShowHealth shows in the status what the objects of a deployed item lack; empty if they are healthy. An item that is
// not ready by a report of its HTTP hook stays so.
func ShowHealth(item *v1alpha1.DeployItem, lacks string, now time.Time) {
	ready := condition(&item.Status, ConditionReady)
	switch unhealthy := IsUnhealthy(item); {
	case lacks == "" && unhealthy:
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionTrue, reasonSucceeded, messageSucceeded, now)
	case lacks != "" && (unhealthy || ready != nil && ready.Status == v1alpha1.ConditionTrue):
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionFalse, ReasonUnhealthy, lacks, now)
	}
}
