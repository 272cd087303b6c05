package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/launch"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Plugin is a plugin that is called as the host calls it. Start and Attach make one. Its methods may be called from
// several goroutines.
type Plugin struct {
	conn    *grpc.ClientConn
	service deployerv1.DeployerServiceClient
	options Options
	limits  limits
	info    *deployerv1.GetInfoResponse
	program *launch.Program // nil for a plugin that was not started here
	path    string          // of the program
}

// Start starts a program as the host does and shakes hands with it. It uses Env, Args, Start and Output of the options.
// ctx bounds the start alone; Close ends the process. When Start fails nothing is left running.
func Start(ctx context.Context, path string, o Options) (*Plugin, error) {
	started, err := launch.Start(ctx, path, launch.Options{
		Env: o.Env, Args: o.Args, Start: o.Start, Output: o.Output, Timeout: o.bounds().probe,
	})
	unusable := (*launch.UnusableError)(nil)
	switch {
	case errors.As(err, &unusable) && unusable.NoTLS:
		err = &unusableError{RuleMutualTLS, unusable.Message}
	case errors.As(err, &unusable):
		err = &unusableError{RuleHandshake, unusable.Message}
	case err == nil:
		var p *Plugin
		if p, err = newPlugin(ctx, started.Conn, o); err == nil {
			p.program, p.path = started, path
			return p, nil
		}
		started.Close()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("start %s: %w", path, err)
}

// Attach connects to a plugin that serves without TLS at an address such as "unix:///tmp/hello/plugin.sock". ctx bounds
// the connection alone. Close ends the connection and leaves the plugin alone.
func Attach(ctx context.Context, address string, o Options) (*Plugin, error) {
	conn, err := grpc.NewClient(
		address, append(wire.DialOptions(), grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()))...,
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

// Close ends the connection, and a process that was started here together with whatever that has started: in order if
// it listens, by force if it does not. It returns when nothing is left of them, some seconds later at most. Closing
// again has no effect.
func (p *Plugin) Close() {
	if p.program != nil {
		p.program.Close()
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
	in, can := p.info, hostside.ReadCapabilities(p.info.GetCapabilities())
	info := &Info{
		Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion(),
		Types:       names[v1alpha1.DeployItemType](in.GetDeployItemTypes()),
		HookedTypes: names[v1alpha1.DeployItemType](in.GetHookedDeployItemTypes()),
		Capabilities: Capabilities{
			Abort: can.Abort, ForceReconcile: can.ForceReconcile, Render: can.Render, Diff: can.Diff,
			Validate: can.Validate, Configure: can.Configure, Watch: can.Watch,
			ContextCredentials: can.ContextCredentials, ContextOCMConfig: can.ContextOCMConfig,
			HostCluster: can.HostCluster, Collect: can.Collect,
			LatePickUp: can.LatePickUp, ScheduleInConfig: can.ScheduleInConfig,
			Hooks: names[hook.Type](can.HookTypes),
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

func (p *Plugin) operate(ctx context.Context, name string, open exchange.Opener, call Call) *Result {
	return call.converse(ctx, p.limits.silence, open, func(rule Rule, message string) {
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
