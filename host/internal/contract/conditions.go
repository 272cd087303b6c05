package contract

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The conditions of an item. Those but PickedUp, Started and PluginCrashes are the ones that kstatus reads, and with it
// kubectl wait, Flux and others: Reconciling and Stalled are absent when they do not hold.
const (
	// ConditionReady: True after a job that succeeded, False after an error, Unknown while a job without an error is
	// running. Its reason is that of the error, or says whether the job waits.
	ConditionReady v1alpha1.ConditionType = "Ready"
	// ConditionReconciling: a job is running; the message says what it does or waits for.
	ConditionReconciling v1alpha1.ConditionType = "Reconciling"
	// ConditionStalled: the last job failed, and nothing happens until there is another one.
	ConditionStalled v1alpha1.ConditionType = "Stalled"
	// ConditionPickedUp names, in its message, the job that was picked up last.
	ConditionPickedUp v1alpha1.ConditionType = "PickedUp"
	// ConditionStarted names, in its message, the job that Pergola itself has set last. A Landscaper may put the previous
	// jobID back; then this keeps the job from being set again. Deployers know it as hook.ConditionStarted.
	ConditionStarted v1alpha1.ConditionType = "Started"
	// ConditionPluginCrashes says, in its message, how often a plugin has crashed during a call for the job; absent if
	// none has since the last job that succeeded. The list of the last errors cannot hold the count: it is text for
	// people, and other errors push it out.
	ConditionPluginCrashes v1alpha1.ConditionType = "PluginCrashes"
	// ConditionServed: False for an item of a type that no plugin serves, where there is no Landscaper; absent for all
	// others.
	ConditionServed v1alpha1.ConditionType = "Served"
)

// The reasons of conditions, beside those of errors.
const (
	reasonPickedUp = "PickedUp"
	reasonStarted  = "Started"
	// reasonLeavesBehind: the job that was picked up is to leave behind what the item has deployed.
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

func removeConditions(status *v1alpha1.DeployItemStatus, types ...v1alpha1.ConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1alpha1.Condition) bool {
		return slices.Contains(types, c.Type)
	})
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
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
