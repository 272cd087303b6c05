package sdk

import "time"

// Response is how a call ended without an error. The zero value, like nil, means that the job is done.
type Response struct {
	// ProviderStatus is saved together with the result, at no extra cost; nil leaves what was saved last. It is marshalled as
	// JSON and must have apiVersion and kind.
	ProviderStatus any
	// Exports are the values to export, marshalled as a JSON object into the item's export secret; nil for none. They count
	// only when the job is done.
	Exports map[string]any
	// InProgress, if set, says that the job goes on.
	InProgress *InProgress
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
