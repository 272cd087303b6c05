package sdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Deployer is what a plugin author implements. Both methods are called for one deploy item at a time, for different
// items at the same time, and again and again for the same job: after InProgress, after an error that is worth a
// retry, after a crash, and by another replica of the host. They must therefore look at what is there before they
// act.
//
// A nil Response with a nil error means that the job is done. An error ends the job or is retried, depending on its
// codes; see Error. A method that waits for something does not block: it returns InProgress and is called again.
//
// A deployer implements any of these interfaces if it can do more:
//
//   - Aborter ends a job in its own way. Without it an abort only cancels the running call.
//   - ForceReconciler does something else than Reconcile when a user forces it. Without it Reconcile is called.
//   - Renderer returns the desired objects without applying them, for HTTP hooks, dry runs and diffs.
//   - Differ returns what Reconcile would change, for `pergola items diff`.
//   - Validator checks a provider configuration without carrying it out.
//   - Configurer takes a configuration document of its own.
//   - Hooker has functions that run in the host's reconcile flow.
//   - Watcher knows when an item may have moved on, so that nobody waits for the next poll.
//   - Collector keeps something outside of its items' targets, and removes it after items that have gone without
//     Delete.
type Deployer interface {
	// Reconcile creates or updates what the deploy item describes.
	Reconcile(ctx context.Context, req *Request) (*Response, error)
	// Delete deletes what Reconcile created. It is done when nothing is left.
	Delete(ctx context.Context, req *Request) (*Response, error)
}

// Aborter is a Deployer that ends a job before it is done in its own way.
type Aborter interface {
	// Abort is called instead of Reconcile or Delete, for five minutes at most, until it returns no InProgress.
	Abort(ctx context.Context, req *Request) (*Response, error)
}

// ForceReconciler is a Deployer that reconciles differently when a user forces it although nothing has changed.
type ForceReconciler interface {
	// ForceReconcile is called instead of Reconcile.
	ForceReconcile(ctx context.Context, req *Request) (*Response, error)
}

// Response is how a call ended without an error. The zero value, like nil, means that the job is done.
type Response struct {
	// ProviderStatus is saved together with the result, at no extra cost; nil leaves what was saved last. It is
	// marshalled as JSON and must have apiVersion and kind.
	ProviderStatus any
	// Exports are the values to export, marshalled as a JSON object into the item's export secret; nil for none. They
	// count only when the job is done.
	Exports map[string]any
	// Conditions are set in the deploy item's status together with the result, also beside an error; others stay as
	// they are. There are at most eight, each of a type of its own that is none of HostConditions. One that is wrong
	// fails the call with ERR_INTERNAL_PROBLEM.
	Conditions []Condition
	// InProgress, if set, says that the job goes on.
	InProgress *InProgress
}

// Condition is an observation about the deploy item that outlasts the job. It is for what a user wants to see or wait
// for beside success and failure, of which the host has conditions itself.
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

// WaitFor is the Response of a job that waits, with the two fields of InProgress.
func WaitFor(what string, pollAfter time.Duration) *Response {
	return &Response{InProgress: &InProgress{WaitingFor: what, PollAfter: pollAfter}}
}

// Renderer is a Deployer that can return the desired objects without applying them.
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

// Differ is a Deployer that can return what Reconcile would change.
type Differ interface {
	// Diff must not change anything. Request's reporting methods have no effect, and ResolveTarget and
	// ResolveRegistryCredentials are errors. A nil response has no changes.
	Diff(ctx context.Context, req *Request) (*DiffResponse, error)
}

// DiffResponse holds what a job would change, in the order in which it would. What would stay as it is, is not in it.
type DiffResponse struct {
	Changes []Change
}

// Change is what a job would do to one object. The sdk hides what Secrets hold, in both states, before it passes a
// change on; it shows only which of their values differ. Nothing else is hidden. A state that is no JSON object, or
// an unknown action, fails the whole diff with ERR_INTERNAL_PROBLEM.
type Change struct {
	// Object names what is changed, for people, such as "ConfigMap shop/settings". Required, and at most 1 KiB.
	Object string
	// Action is what would be done.
	Action Action
	// Before is the object as it is, as JSON; nil if there is none.
	Before json.RawMessage
	// After is the object as it would be, as JSON; nil if there would be none or that cannot be told.
	After json.RawMessage
	// Note is what else there is to say, such as why the job would fail; may be empty.
	Note string
}

// Action is what a job would do to an object.
type Action string

// The actions.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	// ActionRecreate: the object would be deleted and created anew.
	ActionRecreate Action = "recreate"
	ActionDelete   Action = "delete"
	// ActionKeep: the object would stay as it is: it would not be managed any more, or the target refuses its repair.
	ActionKeep Action = "keep"
	// ActionFail: the job would fail over the object.
	ActionFail Action = "fail"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{ActionCreate, ActionUpdate, ActionRecreate, ActionDelete, ActionKeep, ActionFail}
}

// Validator is a Deployer that checks a provider configuration without carrying it out.
type Validator interface {
	// Validate returns what is wrong. An error means that it could not be checked.
	Validate(ctx context.Context, req *ValidateRequest) (*ValidateResponse, error)
}

// ValidateRequest asks to check a provider configuration.
type ValidateRequest struct {
	// Type of the deploy item, one of those given to Serve.
	Type v1alpha1.DeployItemType
	// Config is the provider configuration as JSON.
	Config json.RawMessage
}

// DecodeConfig reads the provider configuration into a struct, strictly as Request.DecodeConfig does, and returns
// everything that is wrong: nothing, if all could be read.
func (r *ValidateRequest) DecodeConfig(into any) []Problem {
	unknown, problems, err := decode(r.Config, into)
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	for _, text := range unknown {
		problems = append(problems, Problem{Message: text})
	}
	return problems
}

// ValidateResponse says what is wrong, all at once. No problems, like nil, mean that the configuration is valid.
type ValidateResponse struct {
	Problems []Problem
}

// Problem is one thing that is wrong with a document.
type Problem struct {
	// Field is the path of the field, such as "manifests[2].policy".
	Field string
	// Message says what was found and what is expected.
	Message string
}

// Configurer is a Deployer with a configuration document of its own.
type Configurer interface {
	// Configure is called once, before any operation. A plugin that reports problems or returns an error is not used.
	Configure(ctx context.Context, req *ConfigureRequest) (*ConfigureResponse, error)
}

// ConfigureRequest hands over the configuration document of a plugin.
type ConfigureRequest struct {
	// Document is YAML or JSON; empty for defaults.
	Document []byte
}

// ConfigureResponse says what is wrong with the document, all at once. No problems, like nil, mean that it is valid.
type ConfigureResponse struct {
	Problems []Problem
	// MaxCalls is how many calls the deployer can work on at once; zero for as many as the host makes. The host queues
	// the others, and their time does not run meanwhile: a deployer that queued them itself would let them time out.
	MaxCalls int
}

// Hooker is a Deployer with functions that run in the host's reconcile flow.
type Hooker interface {
	// Hooks is called once, when the plugin starts.
	Hooks() hook.Hooks
}

// Watcher is a Deployer that knows when an item may have moved on.
type Watcher interface {
	// Watch blocks until ctx ends and calls wake for each item that may have moved on. wake may be called from any
	// goroutine and does not block. When Watch returns earlier, it is called again after a pause.
	Watch(ctx context.Context, wake func(namespace, name string)) error
}

// Collector is a Deployer that keeps something outside of its deploy items' targets, which Delete removes, and which
// would be left behind when an item goes without it. One replica of the host calls both methods after items have
// gone, and from time to time.
type Collector interface {
	// Holdings returns what is kept for which deploy items of this installation, whether those are still there or
	// not. It is called about once an hour, and soon after something may have been left behind. A nil response has no
	// holdings. An error goes to the log of the host, and Holdings is called again.
	Holdings(ctx context.Context, req *HoldingsRequest) (*HoldingsResponse, error)
	// Collect removes what is kept for holdings that nobody needs any more. It does not wait for what takes its time:
	// it is called again as long as Holdings returns them. An error goes to the log of the host; it keeps nothing
	// else from being collected.
	Collect(ctx context.Context, req *CollectRequest) error
}

// HoldingsRequest asks what is kept.
type HoldingsRequest struct {
	// HostCluster as in Request.
	HostCluster *HostCluster
	// Log arrives in the host with its level and fields.
	Log *slog.Logger
}

// HoldingsResponse returns what is kept.
type HoldingsResponse struct {
	Holdings []Holding
}

// Holding stands for what is kept for a deploy item, or for one job of it.
type Holding struct {
	// Namespace, Name and UID of the deploy item.
	Namespace, Name string
	UID             types.UID
	// JobID is the job that it is kept for; empty for what is kept as long as the deploy item is there.
	JobID string
}

// CollectRequest names what nobody needs any more: holdings of deploy items that are gone, and holdings of jobs that
// are over.
type CollectRequest struct {
	Holdings []Holding
	// HostCluster as in Request.
	HostCluster *HostCluster
	// Log arrives in the host with its level and fields.
	Log *slog.Logger
}
