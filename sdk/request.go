package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// Request is one call of a deployer for one deploy item. It is valid until the call returns.
//
// Its context ends when the job's time is up, when the job is aborted, interrupted or superseded, when this replica
// of the host loses the item, and when the host stops. If the host traces the job, the context has the trace context of
// OpenTelemetry, so that a deployer's spans are part of the job's trace.
//
// A test may make one itself, with the necessary fields.
type Request struct {
	// DeployItem as it was read before the call, with the last saved provider status. Changes to it have no effect.
	DeployItem *v1alpha1.DeployItem
	// Target of the item with its content; nil for an item without one.
	Target *Target
	// Context of the item. It is never nil but may be empty.
	Context *v1alpha1.Context
	// Credentials of the Context; nil unless the plugin has asked for them with ContextCredentials, or if the host is
	// too old to hand them over.
	Credentials *Credentials
	// OCMConfig is the ConfigMap in ocmConfig of the Context; nil for a Context without it, unless the plugin has asked
	// for it with ContextOCMConfig, or if the host is too old to hand it over.
	OCMConfig *OCMConfig
	// HostCluster is the access to the host's cluster; nil unless the plugin has asked for it with HostClusterAccess
	// and the operator has granted it.
	HostCluster *HostCluster
	// Installation tells the deploy items of this control plane from those of others with the same target: the UID of
	// the namespace kube-system of the deploy items' cluster. Empty if the host does not know it.
	Installation string
	// JobID is the job of the call.
	JobID string
	// Forced: a user forces the job. A ForceReconciler has forced it in an earlier call.
	Forced bool
	// Children replace the desired objects of a Renderer; nil if they are unchanged.
	Children []Child
	// Claims are, in a Delete, what living deploy items of the same type and Target need of what this one holds, by the
	// Held of their errors. The deployer may hand it over to the first one instead of removing it.
	Claims []Claim
	// ChecksHealth: wake-ups after the success of the job lead to calls of CheckHealth.
	ChecksHealth bool
	// Log arrives in the host with its level and fields, and with the plugin, the deploy item and the job added.
	Log *slog.Logger

	status document.Status
	call   *serving.Call // nil in Render, Diff, Validate and tests
}

// PickUp returns once the job is picked up. A deployer with LatePickUp calls it before it changes something, unless it
// has saved a provider status in the same call. If the job is picked up already, it returns at once. On an error the
// deployer must change nothing; the error is retryable and can be returned as it is. It may be called from several
// goroutines.
//
// In Render, Diff and Validate, and in a request of a test, it does nothing.
func (r *Request) PickUp(ctx context.Context) error { return r.call.PickUp(ctx) }

// ResolveTarget returns another Target of the deploy item's namespace with its content, by its name in a provider
// configuration. It is resolved and checked as Request.Target is. ResolveTarget blocks until the host has answered or
// ctx ends, and may be called from several goroutines.
//
// The error can be returned as it is. A problem of the Target is an *Error with its name and the codes for it. With a
// host that is too old it is an *Error with ReasonHostTooOld, at once. In Render, Diff and Validate, and in a request
// of a test, it is always an error.
func (r *Request) ResolveTarget(ctx context.Context, name string) (*Target, error) {
	const operation = "ResolveTarget" // the host calls it so, too
	what := fmt.Sprintf("Target %q", name)
	answer, err := r.call.ResolveTarget(ctx, name)
	if err != nil {
		return nil, unanswered(operation, "resolve "+what, err)
	}
	if in := answer.GetError(); in != nil {
		return nil, errorFromWire(operation, what+" cannot be used; the host does not say why", in)
	}
	resolved, err := message.ReadTarget(answer.GetTarget())
	if err == nil && resolved == nil {
		err = errors.New("the host has answered with neither a Target nor an error")
	}
	if err != nil {
		return nil, internalProblem(fmt.Errorf("resolve %s: %w", what, err))
	}
	return resolvedTarget(resolved), nil
}

// unanswered is the error of a question without an answer.
func unanswered(operation, what string, err error) error {
	if errors.Is(err, serving.ErrHostTooOld) {
		return hostTooOld(operation, what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// hostTooOld is the error for a question that a host never answers. The next time, it would not either.
func hostTooOld(operation, what string) *Error {
	return &Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Operation: operation, Reason: ReasonHostTooOld,
		Err: fmt.Errorf("%s: this version of the Pergola host does not know %s; update the host", what, operation),
	}
}

// ResolveRegistryCredentials returns the credentials for registries in a Secret, by its name in a provider
// configuration. An empty namespace stands for the namespace of the deploy item. Another namespace, or a Secret of a
// type without Docker's configuration, is a RegistryCredentials.Problem, without the field of the configuration. It
// blocks and fails as ResolveTarget does.
func (r *Request) ResolveRegistryCredentials(
	ctx context.Context, namespace, name string,
) (*RegistryCredentials, error) {
	const operation = "ResolveRegistryCredentials" // the host calls it so, too
	what := fmt.Sprintf("Secret %q", name)
	resolved, err := r.call.ResolveRegistryCredentials(ctx, namespace, name)
	if err != nil {
		return nil, unanswered(operation, "resolve "+what, err)
	}
	if in := resolved.GetError(); in != nil {
		return nil, errorFromWire(operation, what+" cannot be read; the host does not say why", in)
	}
	if resolved.GetCredentials() == nil {
		return nil, internalProblem(
			fmt.Errorf("resolve %s: the host has answered with neither credentials nor an error", what))
	}
	return new(registryFromWire(resolved.GetCredentials())), nil
}

// Progress reports a step within a call: step is a short CamelCase name, such as ReadChart, message a sentence, such as
// "reading the chart". A user sees both in the item's condition Reconciling if the call goes on for a second or more,
// and the message in the error of a job that timed out. It waits for no answer. Between calls InProgress is the report.
func (r *Request) Progress(step, message string) { r.call.Progress(step, message) }

// Event records a Kubernetes event of the deploy item with a CamelCase reason. It waits for no answer. The message
// must hold no secrets.
func (r *Request) Event(reason, message string) { r.call.Event(false, reason, message) }

// Warning is like Event, of type Warning.
func (r *Request) Warning(reason, message string) { r.call.Event(true, reason, message) }

// Stopping is closed when the host wants the call to end soon: a deployer between two steps then returns InProgress.
// The context is cancelled some time later. It is nil, and so never closed, in Render, Diff and Validate, and in a
// request of a test.
func (r *Request) Stopping() <-chan struct{} { return r.call.Stopping() }

// WatchRequest is the host's side of a Watch. Its methods may be called from several goroutines, until Watch returns.
type WatchRequest struct {
	wake func(namespace, name string)
	host *serving.Watch // nil for a host without items of a watch
	read func(*deployerv1.Start) (*Request, error)
}

// WatchedItem is a deploy item of a watch.
type WatchedItem struct {
	Namespace, Name string
	// Target is the name of its Target, so that items with the same credentials are known; empty for none.
	Target string
}

// Wake has the host look at an item that may have moved on. It does not block.
func (w *WatchRequest) Wake(namespace, name string) { w.wake(namespace, name) }

// Items returns the deploy items for which a wake-up matters at this moment, in any order: those with a job that this
// replica of the host has begun and not ended and, for a HealthChecker in standalone mode, the deployed ones of this
// replica. A Watch asks anew for each look at its API; after the first ten lists it gets one in a second. The error is
// as with Request.
func (w *WatchRequest) Items(ctx context.Context) ([]WatchedItem, error) {
	const operation = "ListItems" // the host calls it so, too
	items, err := w.host.Items(ctx)
	if err != nil {
		return nil, unanswered(operation, "list the deploy items of the watch", err)
	}
	return wire.Each(items, func(i *deployerv1.WatchedItem) WatchedItem {
		return WatchedItem{Namespace: i.GetNamespace(), Name: i.GetName(), Target: i.GetTarget()}
	}), nil
}

// Request returns what a call for one of Items would get now: the item as it is, its Target with content, its Context
// and the credentials, all under the same policy. They are for the moment: ask again for the next look, and keep none.
// Like the Request of a Render it reports and saves nothing.
//
// The host answers one question at a time, and ten in a second after the first hundred: with many items ask once for
// each Target. Request blocks until then, or until ctx ends. The error for an item outside of the watch, for a problem
// of its Target, and for a host that is too old, is an *Error with a reason; the latter has ReasonHostTooOld.
func (w *WatchRequest) Request(ctx context.Context, namespace, name string) (*Request, error) {
	const operation = "RequestItem" // the host calls it so, too
	what := fmt.Sprintf("read the deploy item %s/%s for the watch", namespace, name)
	in, err := w.host.Request(ctx, namespace, name)
	if err != nil {
		return nil, unanswered(operation, what, err)
	}
	if in.GetStart() == nil {
		return nil, errorFromWire(operation, what+": the host does not say why it cannot be used", in.GetError())
	}
	req, err := w.read(in.GetStart())
	if err != nil {
		return nil, internalProblem(fmt.Errorf("%s: %w", what, err))
	}
	return req, nil
}
