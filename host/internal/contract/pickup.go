package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// SetJob sets a job, not picked up yet, as Landscaper does, and the condition with its name.
func SetJob(item *v1alpha1.DeployItem, jobID string, now time.Time) {
	SetNewJob(item, jobID, now)
	setCondition(&item.Status, ConditionStarted, v1alpha1.ConditionTrue, reasonStarted, jobID, now)
}

// SetNewJob is SetJob without the condition, for a job set in place of a Landscaper.
func SetNewJob(item *v1alpha1.DeployItem, jobID string, now time.Time) {
	set := wholeSeconds(now)
	item.Status.JobID = jobID
	item.Status.JobIDGenerationTime = &set
	item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &set}
	removeConditions(&item.Status, ConditionNextTry, ConditionStalled)
}

// SetJobOfHook is SetJob for a job requested by hooks. Deployers see the difference by hook.AskedFor.
func SetJobOfHook(item *v1alpha1.DeployItem, jobID string, now time.Time) {
	known, fails := KnownTry(item)
	SetJob(item, jobID, now)
	if fails { // a schedule does not shorten the pauses
		SetTry(item, jobID, known, now)
	}
	setCondition(&item.Status, ConditionStarted, v1alpha1.ConditionTrue, hook.ReasonStartedByHook, jobID, now)
}

// Begin picks a job up. Landscaper takes that write as the sign of a deployer at work on the item.
func Begin(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time) {
	status := &item.Status
	if item.Generation != status.ObservedGeneration { // a job of another spec is no try
		removeConditions(status, ConditionNextTry)
	}
	status.Phase = v1alpha1.DeployItemPhaseInit
	if deletion {
		status.Phase = v1alpha1.DeployItemPhaseInitDelete
	}
	init, lastReconcileTime := wholeSeconds(now), wholeSeconds(now)
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
	if LeavesBehind(item) {
		picked = reasonLeavesBehind
	}
	setCondition(status, ConditionPickedUp, v1alpha1.ConditionTrue, picked, status.JobID, now)
	setCondition(status, ConditionReconciling, v1alpha1.ConditionTrue, reasonProgressing, messageWorking, now)
	setCondition(status, ConditionReady, v1alpha1.ConditionUnknown, reasonProgressing, messageUnderWay, now)
}

// Enqueue returns a variant of Begin for a job that has to wait for a worker. waitingFor is for the user.
func Enqueue(waitingFor string) func(*v1alpha1.DeployItem, bool, v1alpha1.DeployerInformation, time.Time) {
	return func(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time) {
		Begin(item, deletion, deployer, now)
		setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonQueued, waitingFor, now)
	}
}

// TakeOver continues a running job with another deployer. It always changes something, so that writes of the previous
// deployer conflict.
func TakeOver(item *v1alpha1.DeployItem, deployer v1alpha1.DeployerInformation, now time.Time) {
	status, signal := &item.Status, wholeSeconds(now)
	if signal.Before(status.JobIDGenerationTime) {
		signal = *status.JobIDGenerationTime
	}
	if signal.Equal(status.LastReconcileTime) {
		before := v1alpha1.NewTime(signal.Add(-Resolution))
		if before.Before(status.JobIDGenerationTime) { // set, picked up and taken over within a second
			before = v1alpha1.NewTime(signal.Add(Resolution))
		}
		signal = before
	}
	status.LastReconcileTime = &signal
	status.Deployer = deployer
}
