package telemetry

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Job is the job of an event.
type Job struct {
	// Plugin is the reported name of the plugin.
	Plugin string
	// Item is the deploy item.
	Item types.NamespacedName
	// UID of the item. It may be empty for an event of a reconcile without a job.
	UID types.UID
	// ID is the item's jobID. It is empty for an event without a job, like Operation.
	ID string
	// Operation of the calls: Reconcile, ForceReconcile, Delete or Abort.
	Operation string
}

// Kind is a kind of work.
type Kind string

// The kinds of work.
const (
	// KindLock is the acquisition of the item's lock. Its name is empty.
	KindLock Kind = "Lock"
	// KindCall is a call of the plugin; its name is the operation, or Render.
	KindCall Kind = "Call"
	// KindHook is a call of a plugin's hook functions; its name is their type.
	KindHook Kind = "Hook"
	// KindHTTPHook is a call of an HTTP hook; its name is the phase.
	KindHTTPHook Kind = "HTTPHook"
	// KindRequest is a request to the API server; its name is method and resource, such as "PATCH deployitems/status".
	KindRequest Kind = "Request"
)

// Event is an event of a job: a PickedUp, Dequeued, TakenOver, Progress, Waits, Retries, Ended, Left
// or Done.
type Event any

// PickedUp reports the pick-up of the job by this replica.
type PickedUp struct {
	// Triggered is the time of the request for the job, in whole seconds; zero if unknown.
	Triggered time.Time
	// Queued: the job waits for a worker.
	Queued bool
}

// Dequeued reports a worker for a queued job.
type Dequeued struct {
	// Waited is the time in the queue.
	Waited time.Duration
}

// TakenOver reports the takeover of a running job from another replica, or another host.
type TakenOver struct{}

// Progress is a message of the plugin during a call.
type Progress struct {
	// Step is a short name, and Text a sentence.
	Step, Text string
}

// Waits reports the wait of a job.
type Waits struct {
	// For is the cause of the wait.
	For string
}

// Retries reports an error of a job that is tried again.
type Retries struct {
	Error Error
}

// Ended reports the end of a job.
type Ended struct {
	// Phase of the end.
	Phase v1alpha1.DeployItemPhase
	// Error of a failed job; nil after success.
	Error *Error
	// Triggered is the time of the request for the job, and PickedUp that of its pick-up, or of its worker; both are in
	// whole seconds, and zero if unknown.
	Triggered, PickedUp time.Time
}

// Left reports that this replica is not responsible for the item any more. The job of the event has no ID.
type Left struct{}

// Error is an error as in the item's status.
type Error struct {
	// Codes classify it.
	Codes []v1alpha1.ErrorCode
	// Reason is a CamelCase word, and Text a sentence.
	Reason, Text string
}

// Work is a measured activity.
type Work struct {
	// Of is the kind.
	Of Kind
	// Name is described at each Kind.
	Name string
	// By is the plugin of a Call or a Hook, and the DeployerRegistration of an HTTPHook; otherwise empty.
	By string
}

// The results of work. The result of a Request is the HTTP status, or ResultError without an answer.
const (
	// ResultDone: the work is done.
	ResultDone = "done"
	// ResultInProgress: a call has ended, but not the job.
	ResultInProgress = "inProgress"
	// ResultAbort: the hook ends the reconcile.
	ResultAbort = "abort"
	// ResultFailed: the plugin or the hook reports a failure.
	ResultFailed = "failed"
	// ResultConflict: another replica has the lock.
	ResultConflict = "conflict"
	// ResultCanceled: the host has cancelled it, because its result is no longer needed.
	ResultCanceled = "canceled"
	// ResultTimeout: it reached its timeout.
	ResultTimeout = "timeout"
	// ResultCrashed: the plugin's process ended meanwhile.
	ResultCrashed = "crashed"
	// ResultError: it was impossible, or without a valid answer.
	ResultError = "error"
)

// ResultOf is the result of a plugin call with an error. ctx is the context of the call.
func ResultOf(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, plugin.ErrCrashed):
		return ResultCrashed
	case errors.Is(err, context.DeadlineExceeded):
		return ResultTimeout
	case ctx.Err() != nil:
		return ResultCanceled
	default:
		return ResultError
	}
}

// Done reports that work ended, with its result.
type Done struct {
	Work
	// Result is one of the constants above.
	Result string
	// Took is the duration.
	Took time.Duration
}
