package contract

import (
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxLastErrors is how many errors the status remembers.
const maxLastErrors = 5

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
}

// Error returns the message.
func (e Error) Error() string { return e.Message }

// Final tells whether the error ends the job. Others are retried until the deadline.
func (e Error) Final() bool {
	return e.Terminal || slices.ContainsFunc(e.Codes, v1alpha1.ErrorCode.Unrecoverable)
}

// RecordError notes an error in the status. One that is the same as the last changes nothing, so that a job which is retried
// again and again for one reason costs no write for each time.
func RecordError(item *v1alpha1.DeployItem, e Error, now time.Time) {
	status := &item.Status
	if last := status.LastError; last != nil && last.Operation == e.Operation && last.Reason == e.Reason &&
		last.Message == e.Message && slices.Equal(last.Codes, e.Codes) {
		return
	}
	at := moment(status, now)
	recorded := &v1alpha1.Error{
		Operation:          e.Operation,
		Reason:             e.Reason,
		Message:            e.Message,
		Codes:              e.Codes,
		LastUpdateTime:     at,
		LastTransitionTime: at,
	}
	if last := status.LastError; last != nil && last.Operation == e.Operation {
		recorded.LastTransitionTime = last.LastTransitionTime
	}
	status.LastError = recorded
	if status.FirstError == nil {
		status.FirstError = recorded.DeepCopy()
	}
	status.LastErrors = append(status.LastErrors, recorded.DeepCopy())
	if surplus := len(status.LastErrors) - maxLastErrors; surplus > 0 {
		status.LastErrors = slices.Delete(status.LastErrors, 0, surplus)
	}
}

// TimeoutError says that a job took too long, and what it waited for last.
func TimeoutError(waitingFor string) Error {
	message := "the job took longer than spec.timeout allows"
	if waitingFor != "" {
		message = fmt.Sprintf("%s; it was waiting for: %s", message, waitingFor)
	}
	return Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
		Operation: "Timeout",
		Reason:    "ProgressingTimeout",
		Message:   message,
	}
}

func fieldError(field string, err error) Error {
	return Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Operation: "Validate",
		Reason:    "InvalidField",
		Message:   field + ": " + err.Error(),
	}
}
