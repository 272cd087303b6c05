package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxLastErrors is how many errors the status remembers.
const maxLastErrors = 5

// OperationResolve is the operation of errors that concern the Target or the Context of the item. It is the host's
// alone.
const OperationResolve = "ResolveTarget"

// The reasons of errors that, with OperationResolve, say that something is not there which the item uses.
const (
	ReasonTargetNotFound  = "NoTargetFound"
	ReasonSecretNotFound  = "TargetSecretNotFound"
	ReasonContextNotFound = "ContextNotFound"
	// The time of a job is over, which has waited for one of them.
	ReasonPickupTimeout      = "PickupTimeout"
	ReasonProgressingTimeout = "ProgressingTimeout"
)

var reasonsOfLack = []string{
	ReasonTargetNotFound, ReasonSecretNotFound, ReasonContextNotFound, ReasonPickupTimeout, ReasonProgressingTimeout,
}

// FailedForLack tells whether the last job of an item failed because something was not there which the item uses: its
// Target, the Secret of that, or its Context.
func FailedForLack(item *v1alpha1.DeployItem) bool {
	status, failed := &item.Status, failedPhase(item.DeletionTimestamp != nil)
	return Finished(item) && status.Phase == failed && lacks(status)
}

// lacks tells whether the last error of a job is that something was not there which the item uses.
func lacks(status *v1alpha1.DeployItemStatus) bool {
	last := status.LastError
	return last != nil && last.Operation == OperationResolve && slices.Contains(reasonsOfLack, last.Reason)
}

// Error is what goes wrong with a job, for the status of the item. Its message must hold no secrets.
type Error struct {
	// Codes classify the error; may be empty.
	Codes []v1alpha1.ErrorCode
	// Operation says what was being done.
	Operation string
	// Reason is a CamelCase word for machines.
	Reason string
	// Message is a sentence for people.
	Message string
	// Terminal: the error ends the job although none of its codes says so.
	Terminal bool
	// Plugin is the one whose hook has met the error; empty for any other error.
	Plugin string
	// Cause is the error of the call that this one comes of; nil if it comes of none.
	Cause error
}

// Error returns the message.
func (e Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.Cause }

// Final tells whether the error ends the job. Others are retried until the deadline.
func (e Error) Final() bool {
	return e.Terminal || slices.ContainsFunc(e.Codes, func(c v1alpha1.ErrorCode) bool {
		return c.Unrecoverable() || c == v1alpha1.ErrorNoRetry
	})
}

// ForInfoOnly tells whether the error is expected, and of no interest to an operator.
func (e Error) ForInfoOnly() bool { return slices.Contains(e.Codes, v1alpha1.ErrorForInfoOnly) }

// is tells whether a recorded error is this one.
func (e Error) is(recorded *v1alpha1.Error) bool {
	return recorded != nil && recorded.Operation == e.Operation && recorded.Reason == e.Reason &&
		recorded.Message == e.Message && slices.Equal(recorded.Codes, e.Codes)
}

// RecordError notes an error in the status: as the last one, as the first one if there was none, and at the end of the
// last five. Of those no two are the same: one that comes again is counted, at the end of its message. It reports
// whether the error is another one than the last.
func RecordError(item *v1alpha1.DeployItem, e Error, now time.Time) (changed bool) {
	status := &item.Status
	at := moment(status, now)
	changed = !e.is(status.LastError)
	if changed {
		recorded := &v1alpha1.Error{
			Operation: e.Operation, Reason: e.Reason, Message: e.Message, Codes: e.Codes,
			LastUpdateTime: at, LastTransitionTime: at,
		}
		if last := status.LastError; last != nil && last.Operation == e.Operation {
			recorded.LastTransitionTime = last.LastTransitionTime
		}
		status.LastError = recorded
	}
	if status.FirstError == nil {
		status.FirstError = status.LastError.DeepCopy()
	}
	count(status, e, at)
	setCondition(status, ConditionReady, v1alpha1.ConditionFalse, e.Reason, e.Message, now, e.Codes...)
	return changed
}

// count adds the last error to the list of the last ones, or counts it there.
func count(status *v1alpha1.DeployItemStatus, e Error, at v1alpha1.Time) {
	entry, times := status.LastError.DeepCopy(), 1
	for i, recorded := range status.LastErrors {
		if before := timesRecorded(recorded, e); before > 0 {
			times += before
			entry.LastTransitionTime = recorded.LastTransitionTime
			status.LastErrors = slices.Delete(status.LastErrors, i, i+1)
			break
		}
	}
	entry.LastUpdateTime = at
	if times > 1 {
		entry.Message += fmt.Sprintf(timesSuffix, times)
	}
	status.LastErrors = append(status.LastErrors, entry)
	if surplus := len(status.LastErrors) - maxLastErrors; surplus > 0 {
		status.LastErrors = slices.Delete(status.LastErrors, 0, surplus)
	}
}

// timesSuffix is what follows the message of an error that came several times.
const timesSuffix = " (%d times)"

// timesRecorded is how often an error has come that an entry of the list stands for; zero if it stands for another one.
func timesRecorded(entry *v1alpha1.Error, e Error) int {
	if entry == nil { // an API server takes null in a list
		return 0
	}
	suffix, ok := strings.CutPrefix(entry.Message, e.Message)
	if !ok || entry.Operation != e.Operation || entry.Reason != e.Reason || !slices.Equal(entry.Codes, e.Codes) {
		return 0
	}
	times := 1
	if suffix != "" {
		if _, err := fmt.Sscanf(suffix, timesSuffix, &times); err != nil || suffix != fmt.Sprintf(timesSuffix, times) {
			return 0
		}
	}
	return times
}
