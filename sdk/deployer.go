package sdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Deployer is the interface of a plugin author. Both methods are called for one deploy item at a time, for different
// items at the same time, and again and again for the same job: after InProgress, after a retryable error, after a
// crash, and by another replica of the host. They must therefore look at the target before they act.
//
// A nil Response with a nil error means that the job is done. An error ends the job or is retried, depending on its
// codes; see Error. A method does not block to wait for something: it returns InProgress and is called again.
//
// A deployer implements any of these interfaces if it can do more:
//
//   - Aborter ends a job in its own way. Without it an abort only cancels the running call.
//   - ForceReconciler reconciles in another way when a user forces it. Without it Reconcile is called.
//   - Renderer returns the desired objects without applying them, for HTTP hooks, dry runs and diffs.
//   - Differ returns the changes of a Reconcile, for `pergola items diff`.
//   - Validator checks a provider configuration before a job carries it out.
//   - Configurer takes a configuration document of its own.
//   - Hooker has functions for the host's reconcile flow.
//   - Watcher knows when an item may have moved on, before the next poll.
//   - HealthChecker knows whether what an item has deployed is still healthy.
//   - Collector keeps something outside of its items' targets, and removes it after items without a Delete.
type Deployer interface {
	// Reconcile creates or updates the objects of the deploy item.
	Reconcile(ctx context.Context, req *Request) (*Response, error)
	// Delete deletes the objects of Reconcile. It is done when nothing is left.
	Delete(ctx context.Context, req *Request) (*Response, error)
}

// Aborter is a Deployer with its own way to end a job early.
type Aborter interface {
	// Abort is called instead of Reconcile or Delete, for five minutes at most, again and again until it returns no
	// InProgress. Like them it looks at the target before it acts.
	Abort(ctx context.Context, req *Request) (*Response, error)
}

// ForceReconciler is a Deployer with its own way to reconcile when a user forces it.
type ForceReconciler interface {
	// ForceReconcile is called instead of Reconcile until its first answer without an error. If that is InProgress, the
	// job goes on with Reconcile, and Request.Forced is set.
	ForceReconcile(ctx context.Context, req *Request) (*Response, error)
}

// Response is the result of a call without an error. The zero value, like nil, means that the job is done.
type Response struct {
	// ProviderStatus is saved together with the result, at no extra cost; nil keeps the last one. It is marshalled as
	// JSON and must have apiVersion and kind.
	ProviderStatus any
	// Exports are the values to export, marshalled as a JSON object into the item's export secret; nil for none. They
	// count only when the job is done.
	Exports map[string]any
	// Conditions are set in the deploy item's status together with the result, also beside an error; others stay as
	// they are. At most eight, each of a type of its own, and none of HostConditions. A wrong condition fails the call
	// with ERR_INTERNAL_PROBLEM.
	Conditions []Condition
	// InProgress, if set, says that the job goes on. Beside an error only its PollAfter counts, as a RetryAfter.
	InProgress *InProgress
}

// InProgress is the result of a job that waits.
type InProgress struct {
	// WaitingFor is for the user, in the item's condition Reconciling: the thing alone, such as
	// "deployment default/web to become available". Required.
	WaitingFor string
	// PollAfter is when to call again at the latest; zero leaves it to the host. A Watcher's wake-up comes earlier.
	PollAfter time.Duration
}

// WaitFor returns the Response of a job that waits.
func WaitFor(what string, pollAfter time.Duration) *Response {
	return &Response{InProgress: &InProgress{WaitingFor: what, PollAfter: pollAfter}}
}

// Renderer is a Deployer with a way to return the desired objects without applying them.
type Renderer interface {
	// Render must not change anything. Request's reporting methods have no effect, and ResolveTarget and
	// ResolveRegistryCredentials are errors. A nil response has no objects.
	Render(ctx context.Context, req *Request) (*RenderResponse, error)
}

// RenderResponse holds the desired objects of a deploy item.
type RenderResponse struct {
	Children []Child
}

// Child is one desired object.
type Child struct {
	// Name is the key of the object within its deploy item, stable over calls.
	Name string
	// Object as JSON.
	Object json.RawMessage
}

// Differ is a Deployer with a way to return the changes of a Reconcile without making them.
type Differ interface {
	// Diff must not change anything. Request's reporting methods have no effect, and ResolveTarget and
	// ResolveRegistryCredentials are errors. A nil response has no changes.
	Diff(ctx context.Context, req *Request) (*DiffResponse, error)
}

// DiffResponse holds the changes of a job in their order. Unchanged objects are not in it.
type DiffResponse struct {
	Changes []Change
}

// Change is the effect of a job on one object. The sdk hides the values of Secrets in both states before it passes a
// change on, and shows only whether they differ. Nothing else is hidden. A state other than a JSON object, or an
// unknown action, fails the whole diff with ERR_INTERNAL_PROBLEM.
type Change struct {
	// Object names the object for people, such as "ConfigMap shop/settings". Required, and at most 1 KiB.
	Object string
	// Action on the object.
	Action Action
	// Before is the object as it is, as JSON; nil if there is none.
	Before json.RawMessage
	// After is the object as it would be, as JSON; nil if there would be none, or if it is unknown.
	After json.RawMessage
	// Note is for people, such as the reason for a failure; may be empty.
	Note string
	// Waits is the reason why the job would wait for the object, although nothing has awaited it so far; empty if it would
	// not. It is for people.
	Waits string
}

// Action is the kind of a change.
type Action string

// The actions.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	// ActionRecreate: the object would be deleted and created anew.
	ActionRecreate Action = "recreate"
	ActionDelete   Action = "delete"
	// ActionKeep: the object would stay as it is: it would not be managed any more, the target refuses its repair, or the
	// job only waits for it.
	ActionKeep Action = "keep"
	// ActionFail: the job would fail over the object.
	ActionFail Action = "fail"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{ActionCreate, ActionUpdate, ActionRecreate, ActionDelete, ActionKeep, ActionFail}
}

// Validator is a Deployer with a check of provider configurations. The host calls it before the first Reconcile or
// ForceReconcile of a job, and `pergola items validate` without a cluster.
type Validator interface {
	// Validate must not change anything. Its request is that of Reconcile without Target, Credentials, OCMConfig,
	// HostCluster and Installation. Request's reporting methods have no effect, and ResolveTarget and
	// ResolveRegistryCredentials are errors. Problems end the job with ERR_CONFIGURATION_PROBLEM, as Reconcile's own error
	// does: an error with this code, such as that of DecodeConfig, counts as its Problems. Another error means that the
	// check was impossible, and counts as an error of Reconcile.
	Validate(ctx context.Context, req *Request) (*ValidateResponse, error)
}

// ValidateResponse lists all problems at once. Without a problem, like nil, it means a valid configuration.
type ValidateResponse struct {
	Problems []Problem
}

// Configurer is a Deployer with a configuration document of its own.
type Configurer interface {
	// Configure is called once, before any operation. Problems or an error keep the plugin from being used.
	Configure(ctx context.Context, req *ConfigureRequest) (*ConfigureResponse, error)
}

// ConfigureRequest hands over the configuration document of a plugin.
type ConfigureRequest struct {
	// Document is YAML or JSON; empty for defaults.
	Document []byte
}

// ConfigureResponse lists all problems at once. Without a problem, like nil, it means a valid document.
type ConfigureResponse struct {
	Problems []Problem
	// MaxCalls is the option MaxCalls by the document; zero for no bound. Of both the lower one counts.
	MaxCalls int
}

// Hooker is a Deployer with functions for the host's reconcile flow.
type Hooker interface {
	// Hooks is called once, when the plugin starts.
	Hooks() hook.Hooks
}

// Watcher is a Deployer with news of its items.
type Watcher interface {
	// Watch blocks until ctx ends and calls req.Wake for each item that may have moved on. When Watch returns earlier, it
	// is called again after a pause; but not after the error of a host that is too old.
	Watch(ctx context.Context, req *WatchRequest) error
}

// HealthChecker is a Watcher with an answer to the question whether deployed objects are still healthy.
type HealthChecker interface {
	// CheckHealth looks at what the last successful job of an item has deployed. It must not change anything. Nil means
	// that all is healthy, and WaitFor says what is not; nothing else of the response counts. An error leaves what is
	// known as it is, and the call is repeated. It follows a wake-up for an item whose job has succeeded, in standalone
	// mode only: the deployer goes on to watch after jobs with Request.ChecksHealth, and after a CheckHealth. A call may
	// also come without a wake-up, for an item that was not healthy before a restart of the plugin.
	CheckHealth(ctx context.Context, req *Request) (*Response, error)
}

// Collector is a Deployer with holdings outside of its deploy items' targets. Delete removes them, but an item may go
// without a Delete. One replica of the host calls both methods after items have gone, and from time to time.
type Collector interface {
	// Holdings returns the holdings of all deploy items of this installation, also of deleted ones. It is called about
	// once an hour, and soon after something may have been left behind. A nil response has no holdings. An error goes
	// to the log of the host, and Holdings is called again.
	Holdings(ctx context.Context, req *HoldingsRequest) (*HoldingsResponse, error)
	// Collect removes holdings without a use. It does not wait: it is called again as long as Holdings returns them. An
	// error goes to the log of the host, and does not affect other plugins.
	Collect(ctx context.Context, req *CollectRequest) error
}

// HoldingsRequest asks for all holdings.
type HoldingsRequest struct {
	// HostCluster as in Request.
	HostCluster *HostCluster
	// Log arrives in the host with its level and fields.
	Log *slog.Logger
}

// HoldingsResponse lists all holdings.
type HoldingsResponse struct {
	Holdings []Holding
}

// Holding stands for everything that is kept for a deploy item, or for one job of it.
type Holding struct {
	// Namespace, Name and UID of the deploy item.
	Namespace, Name string
	UID             types.UID
	// JobID of the job; empty for a holding with the life of the deploy item.
	JobID string
}

// CollectRequest names holdings without a use: those of deleted deploy items and of finished jobs.
type CollectRequest struct {
	Holdings []Holding
	// HostCluster as in Request.
	HostCluster *HostCluster
	// Log arrives in the host with its level and fields.
	Log *slog.Logger
}
