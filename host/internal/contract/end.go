package contract

import (
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const reasonJobReplaced = "JobReplaced"

// FinishUnchanged changes the status to a job that succeeded without a call of the deployer.
func FinishUnchanged(item *v1alpha1.DeployItem, deployer v1alpha1.DeployerInformation, now time.Time) {
	lacks := shownLack(&item.Status)
	Begin(item, false, deployer, now)
	Succeed(item, now)
	ShowHealth(item, lacks, now) // the deployer has not looked
}

// Succeed changes the status to a successful job.
func Succeed(item *v1alpha1.DeployItem, now time.Time) {
	finish(item, v1alpha1.DeployItemPhaseSucceeded, now)
	item.Status.LastError = nil
	removeConditions(&item.Status, ConditionStalled, ConditionPluginCrashes, ConditionHeld)
	if c := condition(&item.Status, ConditionHookAnswered); c != nil && c.Status != v1alpha1.ConditionTrue {
		// An earlier failure of the hook did not matter in the end.
		removeConditions(&item.Status, ConditionHookAnswered)
	}
	setCondition(&item.Status, ConditionReady, v1alpha1.ConditionTrue, reasonSucceeded, messageSucceeded, now)
}

// SucceedWith is Succeed for an item whose HTTP hook declares conditions: it is Ready if all of them are True.
func SucceedWith(item *v1alpha1.DeployItem, declared []v1alpha1.ConditionType, now time.Time) {
	Succeed(item, now)
	ready := v1alpha1.ConditionTrue
	var message string
	for _, conditionType := range declared {
		c := condition(&item.Status, conditionType)
		if c == nil || c.Status == v1alpha1.ConditionTrue || ready == v1alpha1.ConditionFalse {
			continue
		}
		if ready == v1alpha1.ConditionTrue || c.Status == v1alpha1.ConditionFalse {
			ready, message = c.Status, string(c.Type)+": "+c.Message
		}
	}
	if ready != v1alpha1.ConditionTrue {
		setCondition(&item.Status, ConditionReady, ready, reasonReported, message, now)
	}
}

// Fail changes the status to a failed job.
func Fail(item *v1alpha1.DeployItem, deletion bool, e Error, now time.Time) {
	RecordError(item, e, now)
	finish(item, failedPhase(deletion), now)
	setCondition(&item.Status, ConditionStalled, v1alpha1.ConditionTrue, e.Reason, e.Message, now, e.Codes...)
	setHeld(&item.Status, e.Held, now)
}

// EndReplaced fails a running job that was replaced by a finished one, whose phase must be final. Setting the job again
// would lead to the same replacement, without end.
func EndReplaced(item *v1alpha1.DeployItem, deletion bool, now time.Time) {
	Fail(item, deletion, Error{
		Operation: "Repair", Reason: reasonJobReplaced,
		Message: fmt.Sprintf("job %s was replaced while running by job %s, which is already finished; "+
			"set a new job when nothing else sets jobs for this deploy item",
			pickedUpJob(&item.Status), item.Status.JobID),
	}, now)
}

// finish sets the final phase and jobIDFinished together, so that no reader sees one without the other.
func finish(item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase, now time.Time) {
	status := &item.Status
	at := moment(status, now)
	status.Phase = phase
	status.JobIDFinished = status.JobID
	removeConditions(status, ConditionReconciling, ConditionNextTry, ConditionForced)
	if status.TransitionTimes == nil {
		status.TransitionTimes = &v1alpha1.TransitionTimes{}
	}
	status.TransitionTimes.FinishedTime = &at
}

// conditionsFinished reports whether the conditions of a finished job agree with its phase. It is true for a job that
// was never picked up here.
func conditionsFinished(status *v1alpha1.DeployItemStatus) bool {
	if pickedUpJob(status) == "" || !status.Phase.IsFinal() {
		return true
	}
	holds := func(conditionType v1alpha1.ConditionType) bool {
		c := condition(status, conditionType)
		return c != nil && c.Status == v1alpha1.ConditionTrue
	}
	failed := status.Phase != v1alpha1.DeployItemPhaseSucceeded
	ready := condition(status, ConditionReady)
	fits := holds(ConditionReady) != failed ||
		!failed && ready != nil && (ready.Reason == reasonReported || shownLack(status) != "")
	return !holds(ConditionReconciling) && fits && holds(ConditionStalled) == failed
}

// FinishConditions sets the conditions of a finished job to those of its phase, and changes nothing else. It is for a
// job ended by another program, such as Landscaper by an interruption: tools would take it for a running one.
func FinishConditions(item *v1alpha1.DeployItem, now time.Time) {
	status := &item.Status
	removeConditions(status, ConditionReconciling, ConditionStalled)
	if status.Phase == v1alpha1.DeployItemPhaseSucceeded {
		removeConditions(status, ConditionPluginCrashes)
		setCondition(status, ConditionReady, v1alpha1.ConditionTrue, reasonSucceeded, messageSucceeded, now)
		return
	}
	e := Error{Reason: reasonFailed, Message: "the job failed"}
	if last := status.LastError; last != nil {
		e = Error{Reason: last.Reason, Message: last.Message, Codes: last.Codes}
	}
	setCondition(status, ConditionReady, v1alpha1.ConditionFalse, e.Reason, e.Message, now, e.Codes...)
	setCondition(status, ConditionStalled, v1alpha1.ConditionTrue, e.Reason, e.Message, now, e.Codes...)
}

// EndAborted ends an aborted job without another call of its deployer.
func EndAborted(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time) {
	why := "its deployer did not finish the abort in time"
	if !PickedUp(item) {
		Begin(item, deletion, deployer, now)
		why = "before its deployer was called"
	} else if isQueued(&item.Status) {
		why = "before its deployer was called"
	}
	Fail(item, deletion, AbortedError(why), now)
}
