package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// DefaultTimeout is how long a job may take if the item does not say.
const DefaultTimeout = 10 * time.Minute

// Action is what is to be done with an item.
type Action string

// The actions.
const (
	// Nothing: there is no job, or it is finished.
	Nothing Action = "Nothing"
	// PickUp: there is a job that nobody has picked up, or one that begins anew because the item is now to be deleted.
	PickUp Action = "PickUp"
	// Skip: there is a job, but the item wants none without a change, and nothing has changed since the last success.
	Skip Action = "Skip"
	// Continue: the job was picked up and is under way.
	Continue Action = "Continue"
	// TimedOut: the job was picked up and has taken too long.
	TimedOut Action = "TimedOut"
)

// Decision is what is to be done with an item, and how.
type Decision struct {
	Action Action
	// Deletion: the job deletes what the item has deployed.
	Deletion bool
}

// Decide tells what is to be done with an item. It never fails: an item with a malformed timeout is handled as one without,
// until its job is picked up and Deadline says what is wrong.
func Decide(item *v1alpha1.DeployItem, now time.Time) Decision {
	status := &item.Status
	deletion := item.DeletionTimestamp != nil
	switch {
	case status.JobID == status.JobIDFinished:
		return Decision{Action: Nothing, Deletion: deletion}
	case !pickedUp(status, deletion):
		if !deletion && unchanged(item) {
			return Decision{Action: Skip}
		}
		return Decision{Action: PickUp, Deletion: deletion}
	case expired(item, now):
		return Decision{Action: TimedOut, Deletion: deletion}
	default:
		return Decision{Action: Continue, Deletion: deletion}
	}
}

// pickedUp tells whether the current job is under way. A job that was picked up before the item's deletion is not: it starts
// anew as one that deletes.
func pickedUp(status *v1alpha1.DeployItemStatus, deletion bool) bool {
	underWay := status.Phase != "" && !status.Phase.IsFinal()
	return underWay &&
		status.Phase.IsDeletion() == deletion &&
		status.TransitionTimes != nil && !status.TransitionTimes.InitTime.IsZero() &&
		!setSincePickUp(status)
}

// setSincePickUp tells whether the job was set after the last pick-up. It is Landscaper's own rule for a job that nobody has
// picked up yet.
func setSincePickUp(status *v1alpha1.DeployItemStatus) bool {
	return status.JobIDGenerationTime != nil && status.LastReconcileTime.Before(status.JobIDGenerationTime)
}

func unchanged(item *v1alpha1.DeployItem) bool {
	return item.Spec.UpdateOnChangeOnly &&
		item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded &&
		item.Status.ObservedGeneration == item.Generation
}

func expired(item *v1alpha1.DeployItem, now time.Time) bool {
	deadline, err := Deadline(item)
	return err == nil && !deadline.IsZero() && !now.Before(deadline)
}

// Deadline is when the item's job has to be done: its timeout counted from its pick-up; zero for none. The error says that
// spec.timeout is malformed.
func Deadline(item *v1alpha1.DeployItem) (time.Time, error) {
	timeout := DefaultTimeout
	if item.Spec.Timeout != "" {
		parsed, limited, err := item.Spec.Timeout.Parse()
		if err != nil {
			return time.Time{}, fieldError("spec.timeout", err)
		}
		if !limited {
			return time.Time{}, nil
		}
		timeout = parsed
	}
	times := item.Status.TransitionTimes
	if times == nil || times.InitTime.IsZero() {
		return time.Time{}, nil
	}
	return times.InitTime.Add(timeout), nil
}
