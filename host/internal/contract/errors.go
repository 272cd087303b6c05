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

// OperationResolve is the operation of errors about the Target or the Context of the item. Only the host uses it.
const OperationResolve = "ResolveTarget"

// The reasons of errors with OperationResolve about a missing Target, Secret or Context of the item.
const (
	ReasonTargetNotFound  = "NoTargetFound"
	ReasonSecretNotFound  = "TargetSecretNotFound"
	ReasonContextNotFound = "ContextNotFound"
	// A job has exceeded its time while one of them was missing.
	ReasonPickupTimeout      = "PickupTimeout"
	ReasonProgressingTimeout = "ProgressingTimeout"
)

const (
	reasonInvalidField = "InvalidField"
	reasonAborted      = "Aborted"
)

var missingReferenceReasons = []string{
	ReasonTargetNotFound, ReasonSecretNotFound, ReasonContextNotFound, ReasonPickupTimeout, ReasonProgressingTimeout,
}

// FailedForMissingReference reports whether the last job of an item failed because its Target, the Secret of the
// Target, or its Context was missing.
func FailedForMissingReference(item *v1alpha1.DeployItem) bool {
	status, failed := &item.Status, failedPhase(item.DeletionTimestamp != nil)
	return Finished(item) && status.Phase == failed && missesReference(status)
}

// missesReference reports whether the last error is about a missing reference of the item.
func missesReference(status *v1alpha1.DeployItemStatus) bool {
	last := status.LastError
	return last != nil && last.Operation == OperationResolve && slices.Contains(missingReferenceReasons, last.Reason)
}

// MaxMessage bounds the message of an Error in the status.
const MaxMessage = 16 << 10

// Error is an error of a job, as it goes into the status of the item. Its message must not contain secrets.
type Error struct {
	// Codes classify the error; may be empty.
	Codes []v1alpha1.ErrorCode
	// Operation names the failed step.
	Operation string
	// Reason is a CamelCase word for machines.
	Reason string
	// Message is a sentence for people.
	Message string
	// Terminal: the error ends the job, regardless of its codes.
	Terminal bool
	// Heals: the next job can succeed without a change of the item, regardless of the codes.
	Heals bool
	// Held is what the item needs and another one holds, without a Landscaper; the zero value for nothing.
	Held Held
	// RetryAfter is the least pause before the next try; zero for any.
	RetryAfter time.Duration
	// Plugin is the name of the plugin with the failed hook; empty for other errors.
	Plugin string
	// Cause is the underlying error; nil for none.
	Cause error
}

// Error returns the message.
func (e Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.Cause }

// Final reports whether the error ends the job. Others are retried until the deadline.
func (e Error) Final() bool {
	return e.Terminal || slices.ContainsFunc(e.Codes, v1alpha1.ErrorCode.EndsJob)
}

// ForInfoOnly reports whether the error is expected and no concern of an operator.
func (e Error) ForInfoOnly() bool { return slices.Contains(e.Codes, v1alpha1.ErrorForInfoOnly) }

// is reports whether a recorded error is this one.
func (e Error) is(recorded *v1alpha1.Error) bool {
	return recorded != nil && recorded.Operation == e.Operation && recorded.Reason == e.Reason &&
		recorded.Message == e.Message && slices.Equal(recorded.Codes, e.Codes)
}

// RecordError adds an error to the status: as the last one, as the first one if there was none, and to the list of the
// last five. An error already in the list is counted, at the end of its message. It reports whether the error differs
// from the last one.
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

// count adds the last error to the list, or counts it there.
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

// timesSuffix follows the message of a repeated error.
const timesSuffix = " (%d times)"

// timesRecorded is how often an error has occurred according to an entry of the list; zero for the entry of another
// one.
func timesRecorded(entry *v1alpha1.Error, e Error) int {
	// An API server takes null in a list.
	if entry == nil {
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

// AbortedError is the error of an aborted job. why says more; it may be empty.
func AbortedError(why string) Error {
	message := "the job was aborted by the annotation " + v1alpha1.OperationAnnotation
	if why != "" {
		message += ": " + why
	}
	return Error{Operation: "Abort", Reason: reasonAborted, Message: message, Terminal: true}
}

// WaitsForReference reports whether the running job is retried because of a missing reference of the item.
func WaitsForReference(item *v1alpha1.DeployItem) bool {
	c := condition(&item.Status, ConditionReconciling)
	return c != nil && c.Reason == reasonRetrying && missesReference(&item.Status)
}

func fieldError(field string, err error) Error {
	return Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Operation: "Validate",
		Reason:    reasonInvalidField,
		Message:   field + ": " + err.Error(),
	}
}
