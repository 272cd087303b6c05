package contract

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Action is the next thing to do with an item.
type Action string

// The actions.
const (
	// Nothing: there is no job, or it is finished.
	Nothing Action = "Nothing"
	// Accept: an operation is requested; see AcceptOperation.
	Accept Action = "Accept"
	// Start: no job is running; set one and pick it up.
	Start Action = "Start"
	// Restart: like Start, once the item's Target, the Secret of the Target and the item's Context exist. The last job
	// was a deletion and failed because one of them was missing.
	Restart Action = "Restart"
	// PickUp: there is a job that is not picked up, that waits for a worker, or that starts again because the item is
	// being deleted now.
	PickUp Action = "PickUp"
	// SucceedUnchanged: there is a job, but the item has updateOnChangeOnly and has not changed since the last success.
	SucceedUnchanged Action = "SucceedUnchanged"
	// Continue: the job was picked up and is running.
	Continue Action = "Continue"
	// TimedOut: the job was picked up and has exceeded its timeout.
	TimedOut Action = "TimedOut"
	// Abort: end the job by a call of its deployer.
	Abort Action = "Abort"
	// Repair: a finished job was set in place of a running one; see EndReplaced.
	Repair Action = "Repair"
	// EndedElsewhere: a job that was picked up here was ended by another program, and the conditions do not show it;
	// see FinishConditions.
	EndedElsewhere Action = "EndedElsewhere"
	// GiveUp: end the job without its deployer. It was not called for the job yet, or has exceeded the time for the
	// abort.
	GiveUp Action = "GiveUp"
)

// Decision is an Action with its details.
type Decision struct {
	Action Action
	// Deletion: the job deletes the deployed objects of the item.
	Deletion bool
	// Force: the deployer is to reconcile by force.
	Force bool
	// Forced: the deployer has reconciled by force in an earlier call for the job.
	Forced bool
	// LeaveBehind: a deletion leaves the deployed objects of the item behind.
	LeaveBehind bool
	// JobID is the job to Start; empty for any new one.
	JobID string
	// ByHook: hooks ask for the job to Start. Decide never sets it.
	ByHook bool
}

// EndsJob reports whether only the end of a job is to be written.
func (d Decision) EndsJob() bool {
	switch d.Action {
	case TimedOut, GiveUp, Repair, EndedElsewhere:
		return true
	default:
		return false
	}
}

// Decide returns the next action for an item. A malformed timeout counts as none here; Deadline returns the error once
// the job is picked up.
func Decide(item *v1alpha1.DeployItem, now time.Time) Decision {
	status := &item.Status
	d := Decision{Deletion: item.DeletionTimestamp != nil}
	d.LeaveBehind = LeavesBehind(item)
	accepted := acceptedOf(item)
	switch {
	case acceptable(item, accepted):
		d.Action = Accept
	case Finished(item):
		d.Action, d.JobID = decideFinished(item, accepted, d.LeaveBehind)
	case accepted.aborts(item):
		d.Action = Abort
		if !PickedUp(item) || isQueued(status) || !now.Before(accepted.Until.Time) {
			d.Action = GiveUp
		}
	case !PickedUp(item) && !d.Deletion && unchanged(item) && !accepted.forces(item, ""):
		d.Action = SucceedUnchanged
	case !PickedUp(item) || isQueued(status):
		d.Action = PickUp
	case expired(item, now):
		d.Action = TimedOut
	default:
		d.Action = Continue
	}
	if accepted.forces(item, d.JobID) && !d.Deletion {
		d.Forced = accepted.forced(status)
		d.Force = !d.Forced
	}
	return d
}

// decideFinished decides about an item without a running job.
func decideFinished(item *v1alpha1.DeployItem, accepted *accepted, leaveBehind bool) (Action, string) {
	switch {
	case accepted.starts(&item.Status):
		return Start, accepted.JobID
	case replacedByFinished(&item.Status):
		return Repair, ""
	case !conditionsFinished(&item.Status):
		return EndedElsewhere, ""
	case item.DeletionTimestamp == nil || item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed:
		return Nothing, ""
	case leaveBehind && slices.Contains(item.Finalizers, v1alpha1.Finalizer) && !leftBehindLast(&item.Status):
		return Start, ""
	case FailedForMissingReference(item):
		return Restart, ""
	default:
		return Nothing, ""
	}
}

// leftBehindLast reports whether the last job already left everything behind. An HTTP hook can fail such a job, and
// would fail the next one, too.
func leftBehindLast(status *v1alpha1.DeployItemStatus) bool {
	c := condition(status, ConditionPickedUp)
	return c != nil && c.Reason == reasonLeavesBehind && c.Message == status.JobID
}

// replacedByFinished reports whether a finished job was set in place of a running one. A running execution of
// Landscaper does that to a job set by Pergola.
func replacedByFinished(status *v1alpha1.DeployItemStatus) bool {
	picked := pickedUpJob(status)
	return status.Phase != "" && !status.Phase.IsFinal() && picked != "" && picked != status.JobID
}

// Same reports whether a call for this decision may go on after a later decision. Time does not count: a call ends by
// itself at its deadline.
func (d Decision) Same(again Decision) bool {
	return d.inTime() == again.inTime()
}

// inTime is the decision without regard to time.
func (d Decision) inTime() Decision {
	switch d.Action { //nolint:exhaustive // the others are not about time
	case TimedOut:
		d.Action = Continue
	case GiveUp:
		d.Action = Abort
	}
	return d
}

// Newer reports whether resourceVersion a is newer than b. Versions without an order count as newer, at the price of a
// read.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

func unchanged(item *v1alpha1.DeployItem) bool {
	return item.Spec.UpdateOnChangeOnly &&
		item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded &&
		item.Status.ObservedGeneration == item.Generation
}
