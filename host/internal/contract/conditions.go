package contract

import (
	"regexp"
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

// ReasonTypeNotServed is the reason of ConditionServed, and of the event that comes with it.
const ReasonTypeNotServed = "TypeNotServed"

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

// Step shows in the status what a running call does. step is a short name, which becomes the condition's reason if it
// is a valid one; message says what is being done.
func Step(item *v1alpha1.DeployItem, step, message string, now time.Time) {
	Progress(item)
	if !reasonPattern.MatchString(step) {
		step = reasonProgressing
	}
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, step, message, now)
	if ready := condition(&item.Status, ConditionReady); ready != nil && ready.Reason == reasonWaiting {
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionUnknown, reasonProgressing, messageUnderWay, now)
	}
}

// reasonPattern is that of Kubernetes for the reasons of conditions.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$`)

// Wait shows in the status what a running job waits for. Ready shows it, too: its reason is what kubectl get prints.
func Wait(item *v1alpha1.DeployItem, waitingFor string, now time.Time) {
	Progress(item)
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonWaiting, waitingFor, now)
	setCondition(&item.Status, ConditionReady, v1alpha1.ConditionUnknown, reasonWaiting, waitingFor, now)
}

// Retry shows in the status that a running job has met an error and is tried again. It reports whether the error
// differs from the last one.
func Retry(item *v1alpha1.DeployItem, e Error, now time.Time) (changed bool) {
	Progress(item)
	message := "another try, after: " + e.Message
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonRetrying, message, now)
	return RecordError(item, e, now)
}

// WaitingFor is what the running job does or waits for, as its deployer has reported; empty if it has not.
func WaitingFor(item *v1alpha1.DeployItem) string {
	c := condition(&item.Status, ConditionReconciling)
	if c == nil || c.Reason == reasonProgressing && c.Message == messageWorking {
		return ""
	}
	return c.Message
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
	fits := holds(ConditionReady) != failed || !failed && ready != nil && ready.Reason == reasonReported
	return !holds(ConditionReconciling) && fits && holds(ConditionStalled) == failed
}

// FinishConditions sets the conditions of a finished job to those of its phase, and changes nothing else. It is for a
// job that somebody else has ended, such as Landscaper by an interruption: tools would take it for a running one.
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

// pickedUpJob is the job that was picked up last; empty if that is not known.
func pickedUpJob(status *v1alpha1.DeployItemStatus) string { return named(status, ConditionPickedUp) }

// startedJob is the job that Pergola has set last; empty if there is none.
func startedJob(status *v1alpha1.DeployItemStatus) string { return named(status, ConditionStarted) }

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

// SetUnserved shows in the status that no plugin serves the item's type. The message names the types that are served.
func SetUnserved(item *v1alpha1.DeployItem, message string, now time.Time) {
	setCondition(&item.Status, ConditionServed, v1alpha1.ConditionFalse, ReasonTypeNotServed, message, now)
	if condition(&item.Status, ConditionReady) == nil { // kubectl get prints it
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionFalse, ReasonTypeNotServed, message, now)
	}
}

// SetServed removes what SetUnserved has set.
func SetServed(item *v1alpha1.DeployItem) {
	removeConditions(&item.Status, ConditionServed)
	if ready := condition(&item.Status, ConditionReady); ready != nil && ready.Reason == ReasonTypeNotServed {
		removeConditions(&item.Status, ConditionReady)
	}
}

// Unserved is the message of SetUnserved; empty if there is none.
func Unserved(item *v1alpha1.DeployItem) string { return named(&item.Status, ConditionServed) }

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
