package inspect

import (
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// JobState is how far the job of an item has come.
type JobState string

// The states of a job.
const (
	// JobNone: there was never a job.
	JobNone JobState = "none"
	// JobSet: there is a job, and nobody has picked it up yet.
	JobSet JobState = "set"
	// JobQueued: the job was picked up and waits for a worker. Its time is not running.
	JobQueued JobState = "queued"
	// JobUnderWay: a deployer works on the job, or waits for something.
	JobUnderWay JobState = "running"
	// JobDone: the job is finished, with whatever result.
	JobDone JobState = "done"
)

func stateOf(item *v1alpha1.DeployItem) JobState {
	status := &item.Status
	switch {
	case status.JobID == "":
		return JobNone
	case contract.Finished(item):
		return JobDone
	case contract.IsQueued(item):
		return JobQueued
	case contract.IsUnderWay(item), heldByOther(status):
		return JobUnderWay
	default:
		return JobSet
	}
}

// heldByOther tells whether a deployer that is none of Pergola's works on the job: it names the job in no condition.
func heldByOther(status *v1alpha1.DeployItemStatus) bool {
	working := status.Phase != "" && !status.Phase.IsFinal()
	return working && conditionOf(status, contract.ConditionPickedUp) == nil &&
		!status.LastReconcileTime.IsZero() && !status.LastReconcileTime.Before(status.JobIDGenerationTime)
}

// Settled tells whether nothing is left to be done for an item, as long as nobody asks for it: its job is finished, nobody waits for
// another one, and no deployer is about to begin one.
func Settled(item *v1alpha1.DeployItem, now time.Time) bool {
	if !contract.Finished(item) || item.Annotations[v1alpha1.OperationAnnotation] != "" {
		return false
	}
	action := contract.Decide(item, now).Action
	return action == contract.Nothing || action == contract.Restart
}

// conditionOf returns a condition; nil if there is none of the type.
func conditionOf(status *v1alpha1.DeployItemStatus, conditionType v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}
