package contract

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ConditionReconciling is there while a job is under way that waits for something; its message says for what. It follows the
// convention of the field that such a condition is absent when there is nothing to reconcile.
const ConditionReconciling v1alpha1.ConditionType = "Reconciling"

// reasonWaiting is the reason of ConditionReconciling.
const reasonWaiting = "Waiting"

// Wait changes the status to that of a job under way that waits for something. The same text again changes nothing.
func Wait(item *v1alpha1.DeployItem, waitingFor string, now time.Time) {
	Progress(item)
	at := moment(&item.Status, now)
	condition := v1alpha1.Condition{
		Type: ConditionReconciling, Status: v1alpha1.ConditionTrue, Reason: reasonWaiting, Message: waitingFor,
		LastTransitionTime: at, LastUpdateTime: at,
	}
	i := slices.IndexFunc(item.Status.Conditions, isReconciling)
	if i < 0 {
		item.Status.Conditions = append(item.Status.Conditions, condition)
		return
	}
	if before := item.Status.Conditions[i]; before.Message != waitingFor {
		condition.LastTransitionTime = before.LastTransitionTime
		item.Status.Conditions[i] = condition
	}
}

// stopWaiting removes what Wait has said.
func stopWaiting(status *v1alpha1.DeployItemStatus) {
	status.Conditions = slices.DeleteFunc(status.Conditions, isReconciling)
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
}

func isReconciling(c v1alpha1.Condition) bool { return c.Type == ConditionReconciling }
