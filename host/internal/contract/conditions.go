package contract

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The conditions of an item. kstatus, and with it kubectl wait, Flux and others, reads all but PickedUp, Started and
// PluginCrashes: Reconciling and Stalled are absent when they do not hold.
const (
	// ConditionReady: True after a successful job, False after an error, Unknown while a job without an error is
	// running. Its reason is the reason of the error, or shows a job at work or waiting.
	ConditionReady v1alpha1.ConditionType = "Ready"
	// ConditionReconciling: a job is running; the message names its current step or wait.
	ConditionReconciling v1alpha1.ConditionType = "Reconciling"
	// ConditionStalled: the last job failed, and the next one is not set.
	ConditionStalled v1alpha1.ConditionType = "Stalled"
	// ConditionPickedUp names, in its message, the last job that was picked up.
	ConditionPickedUp v1alpha1.ConditionType = "PickedUp"
	// ConditionStarted names, in its message, the last job set by Pergola itself. A Landscaper may put the previous
	// jobID back; this keeps the job from being set again. Deployers know it as hook.ConditionStarted.
	ConditionStarted v1alpha1.ConditionType = "Started"
	// ConditionPluginCrashes counts, in its message, the crashes of a plugin during calls for the job; absent without a
	// crash since the last successful job. The list of the last errors cannot hold the count: it is text for people,
	// and other errors push it out.
	ConditionPluginCrashes v1alpha1.ConditionType = "PluginCrashes"
	// ConditionForced: the deployer has answered a forced reconcile in the current job; the message has the time of the
	// request.
	ConditionForced v1alpha1.ConditionType = "Forced"
	// ConditionServed: False for an item whose type no plugin serves, where there is no Landscaper; absent for all
	// others.
	ConditionServed v1alpha1.ConditionType = "Served"
)

// The reasons of conditions, beside those of errors.
const (
	reasonPickedUp = "PickedUp"
	reasonStarted  = "Started"
	reasonForced   = "Forced"
	// reasonLeavesBehind: the picked up job leaves the deployed objects behind.
	reasonLeavesBehind = "PickedUpToLeaveBehind"
	reasonQueued       = "Queued"
	reasonProgressing  = "Progressing"
	reasonWaiting      = "Waiting"
	reasonRetrying     = "Retrying"
	reasonSucceeded    = "Succeeded"
	reasonFailed       = "Failed"
)

const (
	messageWorking   = "the deployer is at work"
	messageUnderWay  = "the job is under way"
	messageSucceeded = "the job succeeded"
)

func named(status *v1alpha1.DeployItemStatus, conditionType v1alpha1.ConditionType) string {
	if c := condition(status, conditionType); c != nil {
		return c.Message
	}
	return ""
}

func condition(status *v1alpha1.DeployItemStatus, conditionType v1alpha1.ConditionType) *v1alpha1.Condition {
	i := slices.IndexFunc(status.Conditions, func(c v1alpha1.Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &status.Conditions[i]
}

// setCondition sets a condition. Its transition time changes with its status alone.
func setCondition(
	status *v1alpha1.DeployItemStatus, conditionType v1alpha1.ConditionType, value v1alpha1.ConditionStatus,
	reason, message string, now time.Time, codes ...v1alpha1.ErrorCode,
) {
	at := moment(status, now)
	wanted := v1alpha1.Condition{
		Type: conditionType, Status: value, Reason: reason, Message: message, Codes: codes,
		LastTransitionTime: at, LastUpdateTime: at,
	}
	before := condition(status, conditionType)
	switch {
	case before == nil:
		status.Conditions = append(status.Conditions, wanted)
	case before.Status != value:
		*before = wanted
	case before.Reason != reason || before.Message != message || !slices.Equal(before.Codes, codes):
		wanted.LastTransitionTime = before.LastTransitionTime
		*before = wanted
	}
}

// KeepTransitions restores the transition time of each condition with the status that it had before a write. One write
// may hold the pick-up and the end of a job.
func KeepTransitions(before, after *v1alpha1.DeployItemStatus) {
	for i := range after.Conditions {
		c := &after.Conditions[i]
		if b := condition(before, c.Type); b != nil && b.Status == c.Status {
			c.LastTransitionTime = b.LastTransitionTime
		}
	}
}

func removeConditions(status *v1alpha1.DeployItemStatus, types ...v1alpha1.ConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1alpha1.Condition) bool {
		return slices.Contains(types, c.Type)
	})
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
}

// moment is now, but never before the pick-up of the job, regardless of clocks.
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
