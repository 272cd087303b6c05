package contract

import (
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Finished reports whether the item has no job to do: it never had one, or the last one is finished.
func Finished(item *v1alpha1.DeployItem) bool { return item.Status.JobID == item.Status.JobIDFinished }

// PickedUp reports whether the current job, if it is not finished, was picked up. A job picked up before the item's
// deletion was not: it starts again as a deletion.
func PickedUp(item *v1alpha1.DeployItem) bool {
	status := &item.Status
	underWay := status.Phase != "" && !status.Phase.IsFinal()
	return underWay &&
		status.Phase.IsDeletion() == (item.DeletionTimestamp != nil) &&
		status.TransitionTimes != nil && !status.TransitionTimes.InitTime.IsZero() &&
		!setSincePickUp(status) &&
		pickedUpJob(status) == status.JobID
}

// setSincePickUp reports whether the job was set after the last pick-up, as Landscaper decides it.
func setSincePickUp(status *v1alpha1.DeployItemStatus) bool {
	return status.JobIDGenerationTime != nil && status.LastReconcileTime.Before(status.JobIDGenerationTime)
}

// LeavesBehind reports whether an item is being deleted without its deployed objects.
func LeavesBehind(item *v1alpha1.DeployItem) bool {
	return item.DeletionTimestamp != nil && item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] == "true"
}

// IsUnderWay reports whether the item's job was picked up and is not finished. A queued one counts, too.
func IsUnderWay(item *v1alpha1.DeployItem) bool {
	return !Finished(item) && PickedUp(item)
}

// IsQueued reports whether the item's job was picked up and waits for a slot.
func IsQueued(item *v1alpha1.DeployItem) bool {
	return PickedUp(item) && isQueued(&item.Status)
}

func isQueued(status *v1alpha1.DeployItemStatus) bool {
	inQueue := status.Phase == v1alpha1.DeployItemPhaseInit || status.Phase == v1alpha1.DeployItemPhaseInitDelete
	c := condition(status, ConditionReconciling)
	return inQueue && c != nil && c.Reason == reasonQueued
}

// pickedUpJob is the last job that was picked up; empty if unknown.
func pickedUpJob(status *v1alpha1.DeployItemStatus) string { return named(status, ConditionPickedUp) }

// startedJob is the last job set by Pergola; empty if there is none.
func startedJob(status *v1alpha1.DeployItemStatus) string { return named(status, ConditionStarted) }

// WaitingFor is the current step or wait of the running job, as reported by its deployer; empty without a report.
func WaitingFor(item *v1alpha1.DeployItem) string {
	c := condition(&item.Status, ConditionReconciling)
	if c == nil || c.Reason == reasonProgressing && c.Message == messageWorking {
		return ""
	}
	return c.Message
}

func failedPhase(deletion bool) v1alpha1.DeployItemPhase {
	if deletion {
		return v1alpha1.DeployItemPhaseDeleteFailed
	}
	return v1alpha1.DeployItemPhaseFailed
}
