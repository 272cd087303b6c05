package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Operation is what a plugin is called for.
type Operation string

// The operations of a deployer.
const (
	Reconcile      Operation = "Reconcile"
	Delete         Operation = "Delete"
	Abort          Operation = "Abort"
	ForceReconcile Operation = "ForceReconcile"
)

// ErrNotRunning says that the plugin is not running at the moment, or that the host has ended its process in the middle
// of the call for a reason that is not this call's. Its supervisor is starting it; the Set's listener hears when it
// runs.
var ErrNotRunning = errors.New("the plugin is not running")

// ErrUnhealthy says, beside ErrNotRunning, that the host has killed the process in the middle of the call because of
// another one.
var ErrUnhealthy = errors.New("its process was unhealthy and was killed")

// ErrCrashed says that the plugin's process ended in the middle of the call, or that the host had to end it, and that
// this call may be why.
var ErrCrashed = errors.New("the plugin ended in the middle of a call")

// ErrBeside says, beside ErrCrashed, that other calls were under way in the process, and that each of them may be why.
var ErrBeside = errors.New("beside other calls")

// ErrInterrupted is the cause with which a caller cancels the context of a call whose result nobody wants any more. The
// plugin is asked to stop, but gets less time for it than usual.
var ErrInterrupted = errors.New("the call was interrupted")

// interruptGrace is that time.
const interruptGrace = 500 * time.Millisecond

// ErrProtocol says that the plugin broke the rules of the protocol.
var ErrProtocol = errors.New("the plugin broke the protocol")

// Call is what a plugin gets to work on.
type Call struct {
	// DeployItem with its status.
	DeployItem *v1alpha1.DeployItem
	// Target of the item; nil for an item without one.
	Target *v1alpha1.ResolvedTarget
	// Context of the item. A plugin gets it without what lscontext.WithoutCredentials takes away.
	Context *v1alpha1.Context
	// Credentials that the Context names, possibly none. They go only to a plugin with the capability ContextCredentials,
	// which is not called without them; nil for others.
	Credentials *sdk.Credentials
	// OCMConfig is the ConfigMap that the Context's ocmConfig names. It goes only to a plugin with the capability
	// ContextOCMConfig, which is not called without it; nil for others, and if the Context names none.
	OCMConfig *sdk.OCMConfig
	// Deadline of the call; zero for none.
	Deadline time.Time
	// PickUpPending: the job is not picked up yet; only for a plugin with the capability LatePickUp.
	PickUpPending bool
	// Children replace the desired objects that the plugin would render; nil if nobody changed them.
	Children []sdk.Child
}

// ReadNamed reads what the call's Context names for a plugin with these capabilities. What is wrong with it is no error:
// the plugin decides. The error is that of the reader, wrapped, and worth another try.
func (c *Call) ReadNamed(ctx context.Context, can Capabilities, reader lscontext.Reader) (err error) {
	if can.ContextCredentials {
		if c.Credentials, err = lscontext.Credentials(ctx, reader, c.Context); err != nil {
			return err
		}
	}
	if can.ContextOCMConfig {
		c.OCMConfig, err = lscontext.OCMConfig(ctx, reader, c.Context)
	}
	return err
}

// Observer hears what a plugin says while it works. Its methods are called one after the other.
type Observer interface {
	// Progress tells what the plugin does or waits for.
	Progress(step, message string)
	// SaveProviderStatus saves a provider status for good before it returns, and picks the job up if that is pending. An
	// empty document only does the latter. The plugin waits for it.
	SaveProviderStatus(ctx context.Context, document []byte) error
	// ResolveTarget returns a Target of the deploy item's namespace by its name, which may be any text. The plugin waits
	// for it, and gets an error as it is if it is an Error.
	ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error)
	// ResolveRegistryCredentials returns the credentials for registries in a Secret by its namespace and its name, which
	// may be any text. What is wrong with the Secret is in them. The plugin waits for it, and gets an error as it is if it
	// is an Error.
	ResolveRegistryCredentials(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error)
	// Event is to become an event of the deploy item.
	Event(warning bool, reason, message string)
}

// stream is one call on the wire, whichever RPC it is.
type stream = grpc.BidiStreamingClient[deployerv1.HostMessage, deployerv1.PluginMessage]

func (p *process) open(ctx context.Context, op Operation) (stream, error) {
	rpc, ok := map[Operation]func(context.Context, ...grpc.CallOption) (stream, error){
		Reconcile: p.client.Reconcile, Delete: p.client.Delete, Abort: p.client.Abort,
		ForceReconcile: p.client.ForceReconcile,
	}[op]
	if !ok {
		return nil, fmt.Errorf("open call: no operation %q", op)
	}
	return rpc(ctx)
}

// call carries out one operation and blocks until the plugin has given its result. When ctx ends the plugin is asked to
// stop; grace later the call is cancelled.
func (p *process) call(ctx context.Context, op Operation, c Call, grace time.Duration, observer Observer) (*Outcome,
	error) {
	start, err := p.startOf(ctx, c)
	if err != nil {
		return nil, err
	}
	start.ResolvesTargets, start.ResolvesRegistryCredentials = true, true
	conversation := newConversation(observer)
	ctx = withTrace(ctx)
	if err := p.begin(conversation); err != nil {
		return nil, err
	}
	defer p.calls.remove(conversation)
	callCtx, cancel := callContext(ctx, c.Deadline)
	defer cancel()
	if conversation.stream, err = p.open(callCtx, op); err != nil {
		return nil, p.translate(ctx, conversation, err)
	}
	defer conversation.close()
	if err := conversation.send(hostside.StartMessage(start)); err != nil {
		return nil, p.translate(ctx, conversation, err)
	}
	stopped := make(chan struct{})
	defer close(stopped)
	go stopWith(ctx, stopped, grace, conversation, cancel)

	result, err := conversation.result(callCtx)
	if err != nil {
		return nil, p.translate(ctx, conversation, err)
	}
	if !conversation.ends(cancel) {
		p.log.Warn("plugin goes on with a call after its result; the call is cancelled", "operation", string(op),
			"deployitem", c.DeployItem.Namespace+"/"+c.DeployItem.Name)
	}
	outcome, err := hostside.ReadResult(result)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if len(outcome.Errors) > 0 && !c.Deadline.IsZero() && !time.Now().Before(c.Deadline) {
		return nil, context.DeadlineExceeded // the plugin says no more than that, and may be a moment ahead of callCtx
	}
	return outcome, nil
}

// begin notes a running call, which the caller removes from p.calls at its end. The error is ErrNotRunning.
func (p *process) begin(c *conversation) error {
	if p.run.HasEnded() {
		return ErrNotRunning // the call has nothing to do with it
	}
	p.calls.add(c)
	return nil
}

// ask carries out a call of one question and one answer, until the deadline if there is one. It is cancelled as soon as
// ctx ends. Nothing is said in between, so a plugin is never silent in it, and only ctx, the deadline or the plugin's
// health end one that hangs.
func ask[Answer any](
	ctx context.Context, p *Plugin, deadline time.Time,
	question func(context.Context, *process) (*Answer, error),
) (*Answer, error) {
	proc, err := p.current()
	if err != nil {
		return nil, err
	}
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	conversation := newConversation(nil)
	if err := proc.begin(conversation); err != nil {
		return nil, err
	}
	defer proc.calls.remove(conversation)
	answer, err := question(withTrace(ctx), proc)
	if err != nil {
		return nil, proc.translate(ctx, conversation, err)
	}
	return answer, nil
}

// callContext outlives ctx, so that the plugin can be asked to stop before it is cancelled, but not the deadline.
func callContext(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}

// stopWith ends a call when ctx ends: first in order, then, after grace, by cancelling it. It ends with the call.
func stopWith(ctx context.Context, ended <-chan struct{}, grace time.Duration, c *conversation,
	cancel context.CancelFunc) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		grace = min(grace, interruptGrace)
	}
	// Sending blocks while the plugin does not read, so the time runs from here.
	timer := time.AfterFunc(grace, cancel)
	defer timer.Stop()
	if err := c.send(hostside.StopMessage(context.Cause(ctx).Error())); err != nil {
		cancel()
	}
	<-ended
}

// translate turns an error of gRPC into one that says what happened to the call. Others say so themselves.
func (p *process) translate(ctx context.Context, c *conversation, err error) error {
	if _, ofGRPC := status.FromError(err); !ofGRPC {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("call stopped: %w", context.Cause(ctx))
	}
	switch status.Code(err) { //nolint:exhaustive // the other codes say nothing that the text does not
	case codes.DeadlineExceeded:
		return fmt.Errorf("call: %w", context.DeadlineExceeded)
	case codes.Unavailable, codes.Canceled, codes.Internal:
		// The connection breaks a moment before the process is known to have ended.
		timer := time.NewTimer(launch.StopGrace)
		defer timer.Stop()
		select {
		case <-p.run.Ended:
			return p.callError(c)
		case <-timer.C:
		}
	}
	return fmt.Errorf("%w: %s", ErrProtocol, bounded(status.Convert(err).Message()))
}

// startOf is what begins a call. The documents of the item's user and of the plugin go beside it if the plugin takes
// them separately. The error is ErrNotRunning if the process came to take credentials or ocmConfig after it was found
// out that there was no need for them, or that of access.
func (p *process) startOf(ctx context.Context, c Call) (*deployerv1.Start, error) {
	if c.PickUpPending && !p.info.Capabilities.LatePickUp {
		return nil, fmt.Errorf("%w as it was: it does not wait for the pick-up any more", ErrNotRunning)
	}
	in := hostside.Call{
		DeployItem: c.DeployItem, JobID: c.DeployItem.Status.JobID, Children: c.Children, Target: c.Target,
	}
	if p.info.Capabilities.ContextCredentials {
		if c.Credentials == nil {
			return nil, fmt.Errorf("%w as it was: it takes credentials now, which were not read for this call", ErrNotRunning)
		}
		in.Credentials = c.Credentials
	}
	if p.info.Capabilities.ContextOCMConfig {
		if c.OCMConfig == nil && c.Context != nil && c.Context.OCMConfig != nil {
			return nil, fmt.Errorf("%w as it was: it takes ocmConfig now, which was not read for this call", ErrNotRunning)
		}
		in.OCMConfig = c.OCMConfig
	}
	if c.Context != nil {
		in.Context = lscontext.WithoutCredentials(c.Context)
	}
	var err error
	if in.Installation, err = p.mark(ctx); err != nil {
		return nil, err
	}
	if in.HostCluster, err = p.access(ctx); err != nil {
		return nil, err
	}
	start, err := in.Start(p.info.Capabilities.SeparateDocuments)
	if err != nil {
		return nil, err
	}
	start.PickUpPending = c.PickUpPending
	return start, nil
}

// withTrace has the trace context of W3C sent with a call, if the context is that of a trace.
func withTrace(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx
}
