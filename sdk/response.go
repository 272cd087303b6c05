package sdk

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Response is how a call ended without an error. The zero value, like nil, means that the job is done.
type Response struct {
	// ProviderStatus is saved together with the result, at no extra cost; nil leaves what was saved last. It is marshalled as
	// JSON and must have apiVersion and kind.
	ProviderStatus any
	// Exports are the values to export, marshalled as a JSON object into the item's export secret; nil for none. They count
	// only when the job is done.
	Exports map[string]any
	// Conditions are set in the deploy item's status together with the result, also beside an error; others stay as they are. There are at
	// most eight, each of a type of its own that is none of HostConditions. One that is wrong fails the call with ERR_INTERNAL_PROBLEM.
	Conditions []Condition
	// InProgress, if set, says that the job goes on.
	InProgress *InProgress
}

// Condition is an observation about the deploy item that outlasts the job. It is for what a user wants to see or wait for beside success
// and failure, of which the host has conditions itself.
type Condition struct {
	// Type in CamelCase, such as "Drifted", of at most 63 letters and digits.
	Type v1alpha1.ConditionType
	// Status is True, False or Unknown.
	Status v1alpha1.ConditionStatus
	// Reason in CamelCase, of at most 256 characters. Required.
	Reason string
	// Message is a sentence for the user. It must hold no secrets.
	Message string
}

// InProgress says that a job waits for something.
type InProgress struct {
	// WaitingFor tells the user what the job waits for, in the item's condition Reconciling: the thing alone, such as
	// "deployment default/web to become available". Required.
	WaitingFor string
	// PollAfter is when to call again at the latest; zero leaves it to the host. A Watcher's wake-up comes earlier.
	PollAfter time.Duration
}

// WaitFor is the Response of a job that waits.
func WaitFor(what string, pollAfter time.Duration) *Response {
	return &Response{InProgress: &InProgress{WaitingFor: what, PollAfter: pollAfter}}
}
