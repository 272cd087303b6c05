package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Plugin is a plugin that is called as the host calls it. Start and Attach make one. Its methods may be called from
// several goroutines.
type Plugin struct {
	conn    *grpc.ClientConn
	service deployerv1.DeployerServiceClient
	options Options
	limits  limits
	info    *deployerv1.GetInfoResponse
	process *process // nil if it was not started here
}

// Attach connects to a plugin that serves without TLS at an address such as "unix:///tmp/hello/plugin.sock". ctx bounds
// the connection alone. Close ends the connection and leaves the plugin alone.
func Attach(ctx context.Context, address string, o Options) (*Plugin, error) {
	conn, err := grpc.NewClient(
		address, append(dialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...,
	)
	if err != nil {
		return nil, fmt.Errorf("attach to plugin: %w", err)
	}
	p, err := newPlugin(ctx, conn, o)
	if err != nil {
		_ = conn.Close() // there is nobody to tell
		return nil, fmt.Errorf("attach to plugin: %w", err)
	}
	return p, nil
}

// newPlugin asks a plugin who it is.
func newPlugin(ctx context.Context, conn *grpc.ClientConn, o Options) (_ *Plugin, err error) {
	p := &Plugin{conn: conn, service: deployerv1.NewDeployerServiceClient(conn), options: o, limits: o.bounds()}
	if p.info, err = p.getInfo(ctx); err != nil {
		return nil, &unusableError{RuleInfo, "GetInfo: " + err.Error()}
	}
	return p, nil
}

// unusableError says that a plugin cannot be called, and which rule it breaks.
type unusableError struct {
	rule    Rule
	message string
}

func (e *unusableError) Error() string { return e.message }

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(wire.Codec()),
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes), grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes)),
	}
}

// Close ends the connection, and a process that was started here together with whatever that has started: in order if
// it listens, by force if it does not. It returns when nothing is left of them, some seconds later at most. Closing
// again has no effect.
func (p *Plugin) Close() {
	if p.process != nil {
		p.process.close()
	}
	_ = p.conn.Close() // there is nobody to tell
}

// Info is what a plugin tells about itself.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, and of the sdk that it was built with.
	Version, SDKVersion string
	// Types of deploy items that it serves; none for a plugin that brings nothing but hooks.
	Types []v1alpha1.DeployItemType
	// HookedTypes of deploy items that its hooks run for; none if these are those that it serves.
	HookedTypes []v1alpha1.DeployItemType
	// Capabilities are the optional parts of the protocol that it implements.
	Capabilities Capabilities
	// ConfigSchema is the JSON schema of the plugin's own configuration document; empty for none.
	ConfigSchema []byte
	// ProviderConfigSchemas are the JSON schemas of provider configurations.
	ProviderConfigSchemas map[v1alpha1.DeployItemType][]byte
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Diff, Validate, Configure, Watch bool
	// ContextCredentials come with its calls.
	ContextCredentials bool
	// ContextOCMConfig: the ConfigMap that the Context's ocmConfig names comes with its calls.
	ContextOCMConfig bool
	// HostCluster: the plugin asks for the access to the cluster that the host runs in.
	HostCluster bool
	// Collect: it tells what it keeps outside of its items' targets, and removes what nobody needs any more.
	Collect bool
	// LatePickUp: its operations change nothing before the first provider status or the pick-up, see sdk.LatePickUp.
	LatePickUp bool
	// ScheduleInConfig: no schedule is kept elsewhere than in the provider configuration, see sdk.ScheduleInConfig.
	ScheduleInConfig bool
	// Hooks are the types for which at least one function is registered.
	Hooks []hook.Type
}

func (p *Plugin) getInfo(ctx context.Context) (*deployerv1.GetInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.answer)
	defer cancel()
	return p.service.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: "conformance"})
}

// Info returns who the plugin is and what it can do, as it has told when it was started or attached to.
func (p *Plugin) Info() *Info {
	in, can := p.info, p.info.GetCapabilities()
	info := &Info{
		Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion(),
		Types:       names[v1alpha1.DeployItemType](in.GetDeployItemTypes()),
		HookedTypes: names[v1alpha1.DeployItemType](in.GetHookedDeployItemTypes()),
		Capabilities: Capabilities{
			Abort: can.GetAbort(), ForceReconcile: can.GetForceReconcile(), Render: can.GetRender(), Diff: can.GetDiff(),
			Validate: can.GetValidate(), Configure: can.GetConfigure(), Watch: can.GetWatch(),
			ContextCredentials: can.GetContextCredentials(), ContextOCMConfig: can.GetOcmConfig(),
			HostCluster: can.GetHostCluster(), Collect: can.GetCollect(),
			LatePickUp: can.GetLatePickUp(), ScheduleInConfig: can.GetScheduleInConfiguration(),
			Hooks: names[hook.Type](can.GetHookTypes()),
		},
		ConfigSchema:          in.GetConfigurationSchema(),
		ProviderConfigSchemas: map[v1alpha1.DeployItemType][]byte{},
	}
	for t, schema := range in.GetProviderConfigurationSchemas() {
		info.ProviderConfigSchemas[v1alpha1.DeployItemType(t)] = schema
	}
	return info
}

// Reconcile calls the deployer's Reconcile once.
func (p *Plugin) Reconcile(ctx context.Context, call Call) *Result {
	return p.operate(ctx, "Reconcile", p.service.Reconcile, p.unpicked(call))
}

// Delete calls the deployer's Delete once.
func (p *Plugin) Delete(ctx context.Context, call Call) *Result {
	return p.operate(ctx, "Delete", p.service.Delete, call)
}

// Abort calls the deployer's Abort. Without one the result has an Err.
func (p *Plugin) Abort(ctx context.Context, call Call) *Result {
	return p.operate(ctx, "Abort", p.service.Abort, call)
}

// ForceReconcile calls the deployer's ForceReconcile. Without one the result has an Err.
func (p *Plugin) ForceReconcile(ctx context.Context, call Call) *Result {
	return p.operate(ctx, "ForceReconcile", p.service.ForceReconcile, p.unpicked(call))
}

// unpicked returns the call of a job that is not picked up yet, if the plugin has the capability for that.
func (p *Plugin) unpicked(call Call) Call {
	call.pickUpPending = p.info.GetCapabilities().GetLatePickUp()
	return call
}

// ReconcileUntilDone calls Reconcile, again and again while the job is in progress and each time with the provider
// status that was saved last, until it is not, or until ctx ends. It returns the last result.
func (p *Plugin) ReconcileUntilDone(ctx context.Context, call Call) *Result {
	return untilDone(ctx, p.Reconcile, call)
}

// DeleteUntilDone is like ReconcileUntilDone, for Delete.
func (p *Plugin) DeleteUntilDone(ctx context.Context, call Call) *Result {
	return untilDone(ctx, p.Delete, call)
}

func (p *Plugin) operate(ctx context.Context, name string, open opener, call Call) *Result {
	return p.converse(ctx, open, &call, func(rule Rule, message string) {
		if p.options.Broken != nil {
			p.options.Broken(rule, name+": "+message)
		}
	})
}

// maxPoll is how long is waited between two calls of a job. A deployer may be called earlier than it asked for at any
// time, and a check need not wait as a host does.
const maxPoll = 100 * time.Millisecond

func untilDone(ctx context.Context, operation func(context.Context, Call) *Result, call Call) *Result {
	for {
		result := operation(ctx, call)
		if result.InProgress == nil {
			return result
		}
		pause := maxPoll
		if after := result.InProgress.PollAfter; after > 0 {
			pause = min(after, pause)
		}
		select {
		case <-ctx.Done():
			return result
		case <-time.After(pause):
		}
		call = call.with(result.ProviderStatus)
	}
}

// Configure hands over the plugin's own configuration document, YAML or JSON, empty for defaults. A host does so once,
// before any operation. The problems are what is wrong with the document.
func (p *Plugin) Configure(ctx context.Context, document []byte) ([]sdk.Problem, error) {
	out, err := p.service.Configure(ctx, &deployerv1.ConfigureRequest{Document: document})
	if err != nil {
		return nil, fmt.Errorf("configure plugin: %w", err)
	}
	return convert(out.GetProblems(), problemFromWire), nil
}

// Validate checks a provider configuration, given as JSON. The problems are what is wrong with it.
func (p *Plugin) Validate(ctx context.Context, itemType v1alpha1.DeployItemType, config []byte) ([]sdk.Problem, error) {
	in := &deployerv1.ValidateRequest{DeployItemType: string(itemType), ProviderConfiguration: config}
	out, err := p.service.Validate(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("validate provider configuration: %w", err)
	}
	return convert(out.GetProblems(), problemFromWire), nil
}

func problemFromWire(in *deployerv1.Problem) sdk.Problem {
	return sdk.Problem{Field: in.GetField(), Message: in.GetMessage()}
}

// failure is why a call of one question has no answer: it has ended with an error, or the deployer has returned one.
func failure(method string, err error, failed *deployerv1.Failed) error {
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if failed != nil {
		return failedFromWire(failed)
	}
	return nil
}

// Render returns the desired objects of a deploy item. When the deployer returned an error, the error is a *Failed.
func (p *Plugin) Render(ctx context.Context, call Call) ([]sdk.Child, error) {
	start, err := call.question()
	if err != nil {
		return nil, err
	}
	out, err := p.service.Render(ctx, &deployerv1.RenderRequest{Start: start})
	if err := failure("render", err, out.GetFailed()); err != nil {
		return nil, err
	}
	return convert(out.GetChildren().GetChildren(), func(c *deployerv1.Child) sdk.Child {
		return sdk.Child{Name: c.GetName(), Object: c.GetObject()}
	}), nil
}

// Diff returns what a job would change. When the deployer returned an error, the error is a *Failed.
func (p *Plugin) Diff(ctx context.Context, call Call) ([]sdk.Change, error) {
	start, err := call.question()
	if err != nil {
		return nil, err
	}
	out, err := p.service.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	if err := failure("diff", err, out.GetFailed()); err != nil {
		return nil, err
	}
	if out.GetChanges() == nil {
		return nil, errors.New("diff: the answer has no outcome")
	}
	return convert(out.GetChanges().GetChanges(), func(c *deployerv1.Change) sdk.Change {
		return sdk.Change{
			Object: c.GetObject(), Action: sdk.Action(c.GetAction()),
			Before: c.GetBefore(), After: c.GetAfter(), Note: c.GetNote(),
		}
	}), nil
}

// Holdings returns what the deployer keeps. cluster is the access to the host cluster; nil for none. When the deployer
// returned an error, the error is a *Failed.
func (p *Plugin) Holdings(ctx context.Context, cluster *sdk.HostCluster) ([]sdk.Holding, error) {
	out, err := p.service.Holdings(ctx, &deployerv1.HoldingsRequest{HostCluster: hostClusterToWire(cluster)})
	if err := failure("holdings", err, out.GetFailed()); err != nil {
		return nil, err
	}
	if out.GetHeld() == nil {
		return nil, errors.New("holdings: the answer has no outcome")
	}
	return convert(out.GetHeld().GetHoldings(), func(h *deployerv1.Holding) sdk.Holding {
		return sdk.Holding{
			Namespace: h.GetNamespace(), Name: h.GetName(), UID: types.UID(h.GetUid()), JobID: h.GetJobId(),
		}
	}), nil
}

// Collect tells the deployer what nobody needs any more. What is said of Holdings goes for it, too.
func (p *Plugin) Collect(ctx context.Context, cluster *sdk.HostCluster, holdings []sdk.Holding) error {
	in := &deployerv1.CollectRequest{
		HostCluster: hostClusterToWire(cluster),
		Holdings: convert(holdings, func(h sdk.Holding) *deployerv1.Holding {
			return &deployerv1.Holding{Namespace: h.Namespace, Name: h.Name, Uid: string(h.UID), JobId: h.JobID}
		}),
	}
	out, err := p.service.Collect(ctx, in)
	return failure("collect", err, out.GetFailed())
}

// HookOutcome is what one hook function returned. Both fields are nil if it had no opinion.
type HookOutcome struct {
	Result *hook.Result
	Err    *Error
}

// RunHooks runs the hook functions of one type, in order of their registration. item and target are nil where the type
// says so.
func (p *Plugin) RunHooks(
	ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) ([]HookOutcome, error) {
	in := &deployerv1.RunHooksRequest{HookType: string(hookType)}
	var itemErr, targetErr error
	if item != nil {
		in.DeployItem, itemErr = json.Marshal(item)
	}
	if target != nil {
		in.Target, targetErr = json.Marshal(target)
	}
	if err := errors.Join(itemErr, targetErr); err != nil {
		return nil, fmt.Errorf("marshal the arguments of hooks: %w", err)
	}
	out, err := p.service.RunHooks(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("run hooks: %w", err)
	}
	return convert(out.GetOutcomes(), func(outcome *deployerv1.HookOutcome) (converted HookOutcome) {
		if r := outcome.GetResult(); r != nil {
			converted.Result = &hook.Result{
				Requeue: r.GetRequeue(), RequeueAfter: r.GetRequeueAfter().AsDuration(), AbortReconcile: r.GetAbortReconcile(),
			}
		}
		if e := outcome.GetError(); e != nil {
			converted.Err = new(errorFromWire(e))
		}
		return converted
	}), nil
}

// Watch calls woken for each deploy item that may have moved on, one after the other, until ctx ends, which is no
// error, or the plugin ends the stream.
func (p *Plugin) Watch(ctx context.Context, woken func(namespace, name string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.service.Watch(ctx, &deployerv1.WatchRequest{})
	for err == nil {
		var wakeUp *deployerv1.WatchResponse
		if wakeUp, err = stream.Recv(); err == nil {
			woken(wakeUp.GetNamespace(), wakeUp.GetName())
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch: %w", err)
}
