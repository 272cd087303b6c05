package observe

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Job is what an event belongs to.
type Job struct {
	// Plugin is the name that the plugin gives itself.
	Plugin string
	// Item is the deploy item.
	Item types.NamespacedName
	// UID of the item. It may be empty for an event of a look that has come to no job.
	UID types.UID
	// ID is the item's jobID. It is empty for an event that is of no job, as the operation is.
	ID string
	// Operation is what the plugin is called for: Reconcile, ForceReconcile, Delete or Abort.
	Operation string
}

// Kind is a word for what has happened.
type Kind string

// The kinds of events.
const (
	KindPickedUp  Kind = "PickedUp"
	KindTurn      Kind = "Turn"
	KindTakenOver Kind = "TakenOver"
	KindProgress  Kind = "Progress"
	KindWaits     Kind = "Waits"
	KindRetries   Kind = "Retries"
	KindEnded     Kind = "Ended"
	KindLeft      Kind = "Left"
)

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

// Event is something that has happened to a job: a PickedUp, Turn, TakenOver, Progress, Waits, Retries, Ended, Left or Done.
type Event interface {
	// Kind says what it was.
	Kind() Kind
	// Message says more, in a few words for people; empty if there is no more.
	Message() string
}

// PickedUp says that the job was picked up here.
type PickedUp struct {
	// Triggered is when it was set, in whole seconds; zero if nobody has said.
	Triggered time.Time
	// Queued: it was picked up to wait for its turn.
	Queued bool
}

// Turn says that the turn of a job has come that was picked up to wait for it.
type Turn struct {
	// Waited is how long it has.
	Waited time.Duration
}

// TakenOver says that the job is one under way that another replica, or another host, has worked on.
type TakenOver struct {
	// From is the identity of the host that had it.
	From string
}

// Progress is what the plugin says that it does, in the middle of a call.
type Progress struct {
	// Step is a short name, and Text a sentence.
	Step, Text string
}

// Waits says that the job waits for something.
type Waits struct {
	// For is what it waits for.
	For string
	// Until is when it is looked at again, if nothing happens earlier.
	Until time.Time
}

// Retries says that the job has met an error, and is tried again.
type Retries struct {
	Error Error
	// Until is when.
	Until time.Time
}

// Ended says that the job has ended.
type Ended struct {
	// Phase that it has ended in.
	Phase v1alpha1.DeployItemPhase
	// Error that it has failed with; nil if it has succeeded.
	Error *Error
	// Triggered is when it was set, and PickedUp when it was picked up or its turn had come; both are in whole seconds, and zero if nobody has said.
	Triggered, PickedUp time.Time
}

// Left says that whatever job the item has goes on elsewhere, if it goes on. The job of the event has no ID.
type Left struct {
	// Why is the reason.
	Why string
}

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
	// Name says more, as the kind tells.
	Name string
	// By is whose work it is: the plugin's of a Call or a Hook, the DeployerRegistration's of an HTTPHook; otherwise empty.
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

// Done says that work has come to its end, whichever.
type Done struct {
	Work
	// Result is one of the constants above.
	Result string
	// Took is how long it took.
	Took time.Duration
}

// Kind implements Event.
func (PickedUp) Kind() Kind { return KindPickedUp }

// Message implements Event.
func (e PickedUp) Message() string {
	if e.Queued {
		return "waits for a free worker"
	}
	return ""
}

// Kind implements Event.
func (Turn) Kind() Kind { return KindTurn }

// Message implements Event.
func (Turn) Message() string { return "there is a free worker" }

// Kind implements Event.
func (TakenOver) Kind() Kind { return KindTakenOver }

// Message implements Event.
func (e TakenOver) Message() string { return fmt.Sprintf("from %q", e.From) }

// Kind implements Event.
func (Progress) Kind() Kind { return KindProgress }

// Message implements Event.
func (e Progress) Message() string { return cmp.Or(e.Text, e.Step) }

// Kind implements Event.
func (Waits) Kind() Kind { return KindWaits }

// Message implements Event.
func (e Waits) Message() string { return e.For }

// Kind implements Event.
func (Retries) Kind() Kind { return KindRetries }

// Message implements Event.
func (e Retries) Message() string { return e.Error.Text }

// Kind implements Event.
func (Ended) Kind() Kind { return KindEnded }

// Message implements Event.
func (e Ended) Message() string {
	if e.Error != nil {
		return fmt.Sprintf("%s: %s", e.Phase, e.Error.Text)
	}
	return string(e.Phase)
}

// Kind implements Event.
func (Left) Kind() Kind { return KindLeft }

// Message implements Event.
func (e Left) Message() string { return e.Why }

// Kind implements Event.
func (e Done) Kind() Kind { return e.Of }

// Message implements Event.
func (e Done) Message() string {
	message := e.Result
	if e.Name != "" {
		message = e.Name + ": " + e.Result
	}
	if e.By != "" {
		message = e.By + " " + message
	}
	return message
}
