package contract

import (
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// SetJob sets a job that is not picked up yet, as Landscaper does, and the condition that names it.
func SetJob(item *v1alpha1.DeployItem, jobID string, now time.Time) {
	set := wholeSeconds(now)
	item.Status.JobID = jobID
	item.Status.JobIDGenerationTime = &set
	item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &set}
	setCondition(&item.Status, ConditionStarted, v1alpha1.ConditionTrue, reasonStarted, jobID, now)
}

// SetJobOfHook is SetJob for a job that hooks have requested. Deployers can see that; see hook.AskedFor.
func SetJobOfHook(item *v1alpha1.DeployItem, jobID string, now time.Time) {
	SetJob(item, jobID, now)
	setCondition(&item.Status, ConditionStarted, v1alpha1.ConditionTrue, hook.ReasonStartedByHook, jobID, now)
}

// Begin changes the status to that of a job that is being picked up. Landscaper takes that write as the sign that a
// deployer works on the item.
func Begin(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time) {
	status := &item.Status
	status.Phase = v1alpha1.DeployItemPhaseInit
	if deletion {
		status.Phase = v1alpha1.DeployItemPhaseInitDelete
	}
	init := wholeSeconds(now.Add(time.Second - 1)) // rounded up: no job gets less time than its timeout
	lastReconcileTime := wholeSeconds(now)
	if set := status.JobIDGenerationTime; lastReconcileTime.Before(set) { // Landscaper's clock is ahead of ours
		lastReconcileTime = *set
	}
	status.ObservedGeneration = item.Generation
	status.LastReconcileTime = &lastReconcileTime
	status.Deployer = deployer
	status.LastError, status.FirstError, status.LastErrors = nil, nil, nil
	times := &v1alpha1.TransitionTimes{InitTime: &init}
	if status.TransitionTimes != nil {
		times.TriggerTime = status.TransitionTimes.TriggerTime
	}
	status.TransitionTimes = times
	removeConditions(status, ConditionStalled)
	if IsPoison(item) {
		NoteCrashes(item, 0, now)
	}
	picked := reasonPickedUp
	if leavesBehind(item) {
		picked = reasonLeavesBehind
	}
	setCondition(status, ConditionPickedUp, v1alpha1.ConditionTrue, picked, status.JobID, now)
	setCondition(status, ConditionReconciling, v1alpha1.ConditionTrue, reasonProgressing, messageWorking, now)
	setCondition(status, ConditionReady, v1alpha1.ConditionUnknown, reasonProgressing, messageUnderWay, now)
}

// Enqueue returns a function that changes the status to that of a job that is being picked up and waits for a slot.
// waitingFor is for the user.
func Enqueue(waitingFor string) func(*v1alpha1.DeployItem, bool, v1alpha1.DeployerInformation, time.Time) {
	return func(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time) {
		Begin(item, deletion, deployer, now)
		setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonQueued, waitingFor, now)
	}
}

// TakeOver makes another deployer the one that goes on with a running job. It always changes something, so that writes
// of the previous deployer conflict.
func TakeOver(item *v1alpha1.DeployItem, deployer v1alpha1.DeployerInformation, now time.Time) {
	signal := wholeSeconds(now)
	if last := item.Status.LastReconcileTime; last != nil && !last.Before(&signal) {
		signal = v1alpha1.NewTime(last.Add(time.Second))
	}
	item.Status.LastReconcileTime = &signal
	item.Status.Deployer = deployer
}

// FinishUnchanged changes the status to that of a job that succeeded without a call of the deployer.
func FinishUnchanged(item *v1alpha1.DeployItem, deployer v1alpha1.DeployerInformation, now time.Time) {
	Begin(item, false, deployer, now)
	Succeed(item, now)
}

// Progress changes the phase to that of a running job.
func Progress(item *v1alpha1.DeployItem) {
	if item.Status.Phase.IsDeletion() {
		item.Status.Phase = v1alpha1.DeployItemPhaseDeleting
		return
	}
	item.Status.Phase = v1alpha1.DeployItemPhaseProgressing
}

// Succeed changes the status to that of a job that succeeded.
func Succeed(item *v1alpha1.DeployItem, now time.Time) {
	finish(item, v1alpha1.DeployItemPhaseSucceeded, now)
	item.Status.LastError = nil
	removeConditions(&item.Status, ConditionStalled, ConditionPluginCrashes)
	if c := condition(&item.Status, ConditionHookAnswered); c != nil && c.Status != v1alpha1.ConditionTrue {
		removeConditions(&item.Status, ConditionHookAnswered) // what failed before did not matter in the end
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

// Fail changes the status to that of a job that failed with an error.
func Fail(item *v1alpha1.DeployItem, deletion bool, e Error, now time.Time) {
	RecordError(item, e, now)
	finish(item, failedPhase(deletion), now)
	setCondition(&item.Status, ConditionStalled, v1alpha1.ConditionTrue, e.Reason, e.Message, now, e.Codes...)
}

func failedPhase(deletion bool) v1alpha1.DeployItemPhase {
	if deletion {
		return v1alpha1.DeployItemPhaseDeleteFailed
	}
	return v1alpha1.DeployItemPhaseFailed
}

// EndReplaced fails a running job that was replaced by one that is finished, whose phase must be final. To set the job
// again would be answered in the same way, again and again.
func EndReplaced(item *v1alpha1.DeployItem, deletion bool, now time.Time) {
	Fail(item, deletion, Error{
		Operation: "Repair", Reason: "JobReplaced",
		Message: fmt.Sprintf("the job %s was under way when somebody has set the job %s again, which is finished; "+
			"set a new job when nothing else sets jobs for this deploy item",
			pickedUpJob(&item.Status), item.Status.JobID),
	}, now)
}

// finish sets the final phase and jobIDFinished together: nobody may see one without the other.
func finish(item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase, now time.Time) {
	status := &item.Status
	at := moment(status, now)
	status.Phase = phase
	status.JobIDFinished = status.JobID
	removeConditions(status, ConditionReconciling)
	if status.TransitionTimes == nil {
		status.TransitionTimes = &v1alpha1.TransitionTimes{}
	}
	status.TransitionTimes.FinishedTime = &at
}

// moment is now, but never before the pick-up of the job, whatever the clocks say.
func moment(status *v1alpha1.DeployItemStatus, now time.Time) v1alpha1.Time {
	at := wholeSeconds(now)
	if times := status.TransitionTimes; times != nil && at.Before(times.InitTime) {
		return *times.InitTime
	}
	return at
}

// wholeSeconds is a time as the API server returns it.
func wholeSeconds(t time.Time) v1alpha1.Time {
	return v1alpha1.NewTime(t.Truncate(time.Second))
}
