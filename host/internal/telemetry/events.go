package telemetry

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Job is what an event belongs to.
type Job struct {
	// Plugin is the name that the plugin gives itself.
	Plugin string
	// Item is the deploy item.
	Item types.NamespacedName
	// UID of the item. It may be empty for an event of a reconcile that has come to no job.
	UID types.UID
	// ID is the item's jobID. It is empty for an event that is of no job, as the operation is.
	ID string
	// Operation is what the plugin is called for: Reconcile, ForceReconcile, Delete or Abort.
	Operation string
}

// Kind is a kind of work.
type Kind string

// The kinds of work.
const (
	// KindLock is the item's lock, to be taken. Its name is empty.
	KindLock Kind = "Lock"
	// KindCall is a call of the plugin; its name is that of the operation, or Render.
	KindCall Kind = "Call"
	// KindHook is a call of a plugin's hook functions; its name is that of their type.
	KindHook Kind = "Hook"
	// KindHTTPHook is a call of an HTTP hook; its name is that of the phase.
	KindHTTPHook Kind = "HTTPHook"
	// KindRequest is a request to the API server; its name is method and resource, such as "PATCH deployitems/status".
	KindRequest Kind = "Request"
)

// Event is something that has happened to a job: a PickedUp, Dequeued, TakenOver, Progress, Waits, Retries, Ended, Left
// or Done.
type Event any

// PickedUp says that the job was picked up here.
type PickedUp struct {
	// Triggered is when it was set, in whole seconds; zero if nobody has said.
	Triggered time.Time
	// Queued: it was picked up to wait for a worker.
	Queued bool
}

// Dequeued says that a job that was picked up to wait for a worker has one.
type Dequeued struct {
	// Waited is how long it has.
	Waited time.Duration
}

// TakenOver says that the job is one under way that another replica, or another host, has worked on.
type TakenOver struct{}

// Progress is what the plugin says that it does, in the middle of a call.
type Progress struct {
	// Step is a short name, and Text a sentence.
	Step, Text string
}

// Waits says that the job waits for something.
type Waits struct {
	// For is what it waits for.
	For string
}

// Retries says that the job has met an error, and is tried again.
type Retries struct {
	Error Error
}

// Ended says that the job has ended.
type Ended struct {
	// Phase that it has ended in.
	Phase v1alpha1.DeployItemPhase
	// Error that it has failed with; nil if it has succeeded.
	Error *Error
	// Triggered is when it was set, and PickedUp when it was picked up or a worker was free; both are in whole
	// seconds, and zero if nobody has said.
	Triggered, PickedUp time.Time
}

// Left says that whatever job the item has goes on elsewhere, if it goes on. The job of the event has no ID.
type Left struct{}

// Error is an error as in the item's status.
type Error struct {
	// Codes classify it.
	Codes []v1alpha1.ErrorCode
	// Reason is a CamelCase word, and Text a sentence.
	Reason, Text string
}

// Work is something that takes its time.
type Work struct {
	// Of is the kind of the work.
	Of Kind
	// Name says more, as the kind says.
	Name string
	// By is whose work it is: the plugin's of a Call or a Hook, the DeployerRegistration's of an HTTPHook; otherwise
	// empty.
	By string
}

// The results of work. That of a Request is the HTTP status, or ResultError without an answer.
const (
	// ResultDone: it came to its end.
	ResultDone = "done"
	// ResultInProgress: a call has come to an end, and the job has not.
	ResultInProgress = "inProgress"
	// ResultAbort: the hook ends the reconcile.
	ResultAbort = "abort"
	// ResultFailed: the plugin or the hook says that it has failed.
	ResultFailed = "failed"
	// ResultConflict: the lock is somebody else's.
	ResultConflict = "conflict"
	// ResultCanceled: the host has ended it, because nobody wants its result any more.
	ResultCanceled = "canceled"
	// ResultTimeout: its time was up.
	ResultTimeout = "timeout"
	// ResultCrashed: the plugin's process has ended in the middle of it.
	ResultCrashed = "crashed"
	// ResultError: it could not be done, or its answer was none.
	ResultError = "error"
)

// ResultOf is the result of a call of a plugin that has ended with an error. ctx is that of the call.
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

// Done says that work has come to its end, whichever.
type Done struct {
	Work
	// Result is one of the constants above.
	Result string
	// Took is how long it took.
	Took time.Duration
}
