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
	// ConditionReady: True after a job that succeeded, False after an error, Unknown while a job is under way that has
	// met none. Its reason is that of the error, or whether the job waits.
	ConditionReady v1alpha1.ConditionType = "Ready"
	// ConditionReconciling: a job is under way; the message says what is being done or waited for.
	ConditionReconciling v1alpha1.ConditionType = "Reconciling"
	// ConditionStalled: the last job failed, and nothing happens until there is another one.
	ConditionStalled v1alpha1.ConditionType = "Stalled"
	// ConditionPickedUp names, in its message, the job that was picked up last.
	ConditionPickedUp v1alpha1.ConditionType = "PickedUp"
	// ConditionStarted names, in its message, the job that Pergola has set last itself, so that none is set twice: a
	// Landscaper may put the job before it in its place. Deployers know it as hook.ConditionStarted.
	ConditionStarted v1alpha1.ConditionType = "Started"
	// ConditionPluginCrashes says, in its message, how often a plugin has died in the middle of a call for the job
	// under way; absent if none has. The list of the last errors is no place for the count: it is text for people, and
	// other errors push it out.
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
	messageQueued    = "a free worker"
	messageWorking   = "the deployer is at work"
	messageUnderWay  = "the job is under way"
	messageSucceeded = "the job succeeded"
)

// Step changes the status to that of a job whose deployer is in the middle of a call. step is a short name, which
// becomes the condition's reason if it can be one; message says what is being done. The same again changes nothing.
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

// Wait changes the status to that of a job under way that waits for something. The same text again changes nothing.
// Ready says so, too: its reason is what kubectl get shows.
func Wait(item *v1alpha1.DeployItem, waitingFor string, now time.Time) {
	Progress(item)
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonWaiting, waitingFor, now)
	setCondition(&item.Status, ConditionReady, v1alpha1.ConditionUnknown, reasonWaiting, waitingFor, now)
}

// Retry changes the status to that of a job under way that has met an error and is tried again later. It reports
// whether the error is another one than the last.
func Retry(item *v1alpha1.DeployItem, e Error, now time.Time) (changed bool) {
	Progress(item)
	message := "another try, after: " + e.Message
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonRetrying, message, now)
	return RecordError(item, e, now)
}

// WaitingFor is what the job under way does or waits for, as far as its deployer has said so; empty if it has not.
func WaitingFor(item *v1alpha1.DeployItem) string {
	c := condition(&item.Status, ConditionReconciling)
	if c == nil || c.Reason == reasonProgressing && c.Message == messageWorking {
		return ""
	}
	return c.Message
}

// settled tells whether the conditions of a finished job agree with its phase. Those of an item that was never picked
// up here are nobody's.
func settled(status *v1alpha1.DeployItemStatus) bool {
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

// SettleConditions changes the conditions of a finished job to those of its phase, and nothing else. Who ends a job in
// the deployer's place, such as Landscaper by an interruption, knows nothing of them; without this the tools of the
// field would take the job for one under way.
func SettleConditions(item *v1alpha1.DeployItem, now time.Time) {
	status := &item.Status
	removeConditions(status, ConditionReconciling, ConditionStalled, ConditionPluginCrashes)
	if status.Phase == v1alpha1.DeployItemPhaseSucceeded {
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

// IsUnderWay tells whether the item's job was picked up and is not finished.
func IsUnderWay(item *v1alpha1.DeployItem) bool {
	return !Finished(item) && PickedUp(item)
}

// IsQueued tells whether the item's job was picked up and waits for a worker.
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

// SetUnserved notes in the status that no plugin serves the item's type. The message says which ones are served.
func SetUnserved(item *v1alpha1.DeployItem, message string, now time.Time) {
	setCondition(&item.Status, ConditionServed, v1alpha1.ConditionFalse, ReasonTypeNotServed, message, now)
	if condition(&item.Status, ConditionReady) == nil { // it is what kubectl get shows
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionFalse, ReasonTypeNotServed, message, now)
	}
}

// SetServed takes back what SetUnserved has noted.
func SetServed(item *v1alpha1.DeployItem) {
	removeConditions(&item.Status, ConditionServed)
	if ready := condition(&item.Status, ConditionReady); ready != nil && ready.Reason == ReasonTypeNotServed {
		removeConditions(&item.Status, ConditionReady)
	}
}

// Unserved is what SetUnserved has noted; empty if it has not.
func Unserved(item *v1alpha1.DeployItem) string { return named(&item.Status, ConditionServed) }

// setCondition sets a condition. The time of its transition is that of its status.
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
