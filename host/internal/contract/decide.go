package contract

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Action is what is to be done with an item.
type Action string

// The actions.
const (
	// Nothing: there is no job, or it is finished.
	Nothing Action = "Nothing"
	// Accept: somebody asks for an operation; see AcceptOperation.
	Accept Action = "Accept"
	// Start: no job is under way, and one is to be set and picked up.
	Start Action = "Start"
	// Restart: like Start, if the Target and the Context of the item, and the Secret of that Target, have come back.
	// The last job was to delete what the item has deployed and failed because one of them was gone.
	Restart Action = "Restart"
	// PickUp: there is a job that nobody has picked up, or one that waits for a worker, or one that begins anew because
	// the item is now to be deleted.
	PickUp Action = "PickUp"
	// Skip: there is a job, but the item wants none without a change, and nothing has changed since the last success.
	Skip Action = "Skip"
	// Continue: the job was picked up and is under way.
	Continue Action = "Continue"
	// TimedOut: the job was picked up and has taken too long.
	TimedOut Action = "TimedOut"
	// Abort: the job is to be ended, and its deployer gets the chance to do that in its own way.
	Abort Action = "Abort"
	// Repair: somebody has put a finished job in the place of one under way; see EndReplaced.
	Repair Action = "Repair"
	// Settle: somebody else has ended a job that was picked up here, and the conditions do not show it yet; see
	// SettleConditions.
	Settle Action = "Settle"
	// GiveUp: the job is to be ended without its deployer: that has never been called for it, or takes too long for the
	// abort.
	GiveUp Action = "GiveUp"
)

// Decision is what is to be done with an item, and how.
type Decision struct {
	Action Action
	// Deletion: the job deletes what the item has deployed.
	Deletion bool
	// Force: the deployer is to reconcile by force.
	Force bool
	// LeaveBehind: a deletion is not to delete what the item has deployed.
	LeaveBehind bool
	// JobID is the job to Start; empty for any new one.
	JobID string
	// ByHook: it is hooks that ask for the job to Start. Decide knows nothing of them.
	ByHook bool
}

// Decide tells what is to be done with an item. It never fails: an item with a malformed timeout is handled as one
// without, until its job is picked up and Deadline says what is wrong.
func Decide(item *v1alpha1.DeployItem, now time.Time) Decision {
	status := &item.Status
	d := Decision{Deletion: item.DeletionTimestamp != nil}
	d.LeaveBehind = leavesBehind(item)
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
		d.Action = Skip
	case !PickedUp(item) || isQueued(status):
		d.Action = PickUp
	case expired(item, now):
		d.Action = TimedOut
	default:
		d.Action = Continue
	}
	d.Force = accepted.forces(item, d.JobID) && !d.Deletion
	return d
}

// decideFinished tells what is to be done with an item whose last job is finished.
func decideFinished(item *v1alpha1.DeployItem, accepted *accepted, leaveBehind bool) (Action, string) {
	switch {
	case accepted.starts(&item.Status):
		return Start, accepted.JobID
	case taken(&item.Status):
		return Repair, ""
	case !settled(&item.Status):
		return Settle, ""
	case item.DeletionTimestamp == nil || item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed:
		return Nothing, ""
	case leaveBehind && slices.Contains(item.Finalizers, v1alpha1.Finalizer) && !leftBehindLast(&item.Status):
		return Start, ""
	case FailedForLack(item):
		return Restart, ""
	default:
		return Nothing, ""
	}
}

// leavesBehind tells whether an item is to be deleted without what it has deployed.
func leavesBehind(item *v1alpha1.DeployItem) bool {
	return item.DeletionTimestamp != nil && item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] == "true"
}

// leftBehindLast tells whether the last job was one that was to leave everything behind, so that to set another one for
// that would come to the same: an HTTP hook can have such a job fail.
func leftBehindLast(status *v1alpha1.DeployItemStatus) bool {
	c := condition(status, ConditionPickedUp)
	return c != nil && c.Reason == reasonLeavesBehind && c.Message == status.JobID
}

// taken tells whether a job that was under way is gone without an end: somebody has set one again that is finished. So
// does a Landscaper whose execution still runs when Pergola sets a job of its own.
func taken(status *v1alpha1.DeployItemStatus) bool {
	picked := pickedUpJob(status)
	return status.Phase != "" && !status.Phase.IsFinal() && picked != "" && picked != status.JobID
}

// Same tells whether a decision made anew changes nothing for a call of the deployer that is under way because of this
// one. A call ends by itself when its time is over.
func (d Decision) Same(again Decision) bool {
	return d.inTime() == again.inTime()
}

// inTime is the decision as if there were time enough.
func (d Decision) inTime() Decision {
	switch d.Action { //nolint:exhaustive // the others are not about time
	case TimedOut:
		d.Action = Continue
	case GiveUp:
		d.Action = Abort
	}
	return d
}

// Finished tells whether no job of the item is to be done: it has had none, or the last one is finished.
func Finished(item *v1alpha1.DeployItem) bool { return item.Status.JobID == item.Status.JobIDFinished }

// PickedUp tells whether the current job is under way, if it is not finished. A job that was picked up before the
// item's deletion is not: it starts anew as one that deletes.
func PickedUp(item *v1alpha1.DeployItem) bool {
	status := &item.Status
	underWay := status.Phase != "" && !status.Phase.IsFinal()
	return underWay &&
		status.Phase.IsDeletion() == (item.DeletionTimestamp != nil) &&
		status.TransitionTimes != nil && !status.TransitionTimes.InitTime.IsZero() &&
		!setSincePickUp(status) &&
		pickedUpJob(status) == status.JobID
}

// setSincePickUp tells whether the job was set after the last pick-up. It is Landscaper's own rule for a job that
// nobody has picked up yet.
func setSincePickUp(status *v1alpha1.DeployItemStatus) bool {
	return status.JobIDGenerationTime != nil && status.LastReconcileTime.Before(status.JobIDGenerationTime)
}

func unchanged(item *v1alpha1.DeployItem) bool {
	return item.Spec.UpdateOnChangeOnly &&
		item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded &&
		item.Status.ObservedGeneration == item.Generation
}
