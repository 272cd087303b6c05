package sdk

import (
	"context"
	"encoding/json"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Deployer is what a plugin author implements. Both methods are called for one deploy item at a time, for different items
// at the same time, and again and again for the same job: after InProgress, after an error that is worth a retry, after a
// crash, and by another replica of the host. They must therefore look at what is there before they act.
//
// A nil Response with a nil error means that the job is done. An error ends the job or is retried, depending on its codes;
// see Error. A method that waits for something does not block: it returns InProgress and is called again.
//
// A deployer implements any of these interfaces if it can do more:
//
//   - Aborter ends a job in its own way. Without it an abort only cancels the running call.
//   - ForceReconciler does something else than Reconcile when a user insists. Without it Reconcile is called.
//   - Renderer returns the desired objects without applying them, for HTTP hooks, dry runs and diffs.
//   - Differ tells what Reconcile would change, for `pergola items diff`.
//   - Validator checks a provider configuration without carrying it out.
//   - Configurer takes a configuration document of its own.
//   - Hooker has functions that run in the host's reconcile flow.
//   - Watcher knows when an item may have moved on, so that nobody waits for the next poll.
//   - Collector keeps something outside of its items' targets, and clears up after items that have gone without Delete.
type Deployer interface {
	// Reconcile brings what the deploy item describes into the world.
	Reconcile(ctx context.Context, req *Request) (*Response, error)
	// Delete removes what Reconcile brought. It is done when nothing is left.
	Delete(ctx context.Context, req *Request) (*Response, error)
}

// Aborter is a Deployer that ends a job before it is done in its own way.
type Aborter interface {
	Abort(ctx context.Context, req *Request) (*Response, error)
}

// ForceReconciler is a Deployer that reconciles differently when a user insists although nothing has changed.
type ForceReconciler interface {
	ForceReconcile(ctx context.Context, req *Request) (*Response, error)
}

// Renderer is a Deployer that can tell the desired objects without applying them.
type Renderer interface {
	// Render must not change anything. Request's reporting methods have no effect.
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

// Differ is a Deployer that can tell what Reconcile would change.
type Differ interface {
	// Diff must not change anything. Request's reporting methods have no effect, and ResolveTarget and ResolveRegistryCredentials are errors.
	Diff(ctx context.Context, req *Request) (*DiffResponse, error)
}

// DiffResponse holds what a job would change, in the order in which it would. What would stay as it is, is not in it.
type DiffResponse struct {
	Changes []Change
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
	// ActionKeep: the object would stay but not be managed any more.
	ActionKeep Action = "keep"
	// ActionFail: the job would fail over the object.
	ActionFail Action = "fail"
)

// Change is what a job would do to one object. The sdk hides what Secrets hold, in both states, before it passes a change on; it shows
// only which of their values differ. Nothing else is hidden. A state that is no JSON object, or an unknown action, fails the whole diff with
// ERR_INTERNAL_PROBLEM.
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

// Validator is a Deployer that checks a provider configuration without carrying it out.
type Validator interface {
	Validate(ctx context.Context, req *ValidateRequest) (*ValidateResponse, error)
}

// ValidateRequest asks to check a provider configuration.
type ValidateRequest struct {
	// Type of the deploy item, one of those given to Serve.
	Type v1alpha1.DeployItemType
	// Config is the provider configuration as JSON.
	Config json.RawMessage
}

// ValidateResponse says what is wrong, all at once. No problems mean that the configuration is valid.
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

// ConfigureResponse says what is wrong with the document, all at once.
type ConfigureResponse struct {
	Problems []Problem
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
