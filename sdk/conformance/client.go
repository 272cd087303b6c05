package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/launch"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/watchdog"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Plugin calls a plugin as the host does. Start and Attach return one. Its methods may be called from several
// goroutines.
type Plugin struct {
	conn    *grpc.ClientConn
	service deployerv1.DeployerServiceClient
	options Options
	limits  bounds.Limits
	info    *deployerv1.GetInfoResponse
	program *launch.Program // nil for a plugin that was not started here
	path    string          // of the program
	// watchdog hears all that the plugin says.
	watchdog *watchdog.Watchdog
}

// Start starts a program as the host does and shakes hands with it. It uses Env, Args, Start and Output of the options.
// ctx bounds the start alone; Close ends the process. When Start fails nothing is left running.
func Start(ctx context.Context, path string, o Options) (*Plugin, error) {
	dog := watchdog.New()
	options := o.launch()
	options.Output, options.DialOptions = dog.Log(o.Output), dog.DialOptions()
	started, err := launch.Start(ctx, path, options)
	unusable := (*launch.UnusableError)(nil)
	switch {
	case errors.As(err, &unusable) && unusable.NoTLS:
		err = &unusableError{RuleMutualTLS, unusable.Message}
	case errors.As(err, &unusable):
		err = &unusableError{RuleHandshake, unusable.Message}
	case err == nil:
		var p *Plugin
		if p, err = newPlugin(ctx, started.Conn, o, dog); err == nil {
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

// Attach connects to a plugin without TLS at an address such as "unix:///tmp/hello/plugin.sock". ctx bounds the
// connection alone. Close ends the connection and leaves the plugin alone.
func Attach(ctx context.Context, address string, o Options) (*Plugin, error) {
	dog := watchdog.New()
	conn, err := grpc.NewClient(address, slices.Concat(wire.DialOptions(), dog.DialOptions(), []grpc.DialOption{
		grpc.WithNoProxy(), grpc.WithTransportCredentials(insecure.NewCredentials()),
	})...)
	if err != nil {
		return nil, fmt.Errorf("attach to plugin: %w", err)
	}
	p, err := newPlugin(ctx, conn, o, dog)
	if err != nil {
		_ = conn.Close() // a failure has no effect
		return nil, fmt.Errorf("attach to plugin: %w", err)
	}
	return p, nil
}

// newPlugin asks a plugin for its description.
func newPlugin(
	ctx context.Context, conn *grpc.ClientConn, o Options, dog *watchdog.Watchdog,
) (_ *Plugin, err error) {
	p := &Plugin{
		conn: conn, service: deployerv1.NewDeployerServiceClient(conn), options: o, limits: o.bounds(), watchdog: dog,
	}
	dog.ReportTo(func(rule watchdog.Breach, message string) {
		if o.Broken != nil && rule != watchdog.Panics { // the caller sees a panic in the result
			o.Broken(Rule(rule), message)
		}
	})
	if p.info, err = p.getInfo(ctx); err != nil {
		return nil, &unusableError{RuleInfo, "GetInfo: " + err.Error()}
	}
	return p, nil
}

// Log returns a writer for the log of a plugin that was not started here. It passes the log on, and looks for
// credentials in it: they break the rule credentials.
func (p *Plugin) Log(to io.Writer) io.Writer { return p.watchdog.Log(to) }

// meet notes what the plugin gets to know by a call.
func (p *Plugin) meet(call *Call) {
	if call.DeployItem == nil {
		return
	}
	item, _ := json.Marshal(call.DeployItem) // it is a plain struct
	for _, target := range append(slices.Collect(maps.Values(call.Targets)), call.Target) {
		if target != nil {
			p.watchdog.Secrets.Add(target.Content, item)
		}
	}
}

// unusableError reports a plugin that cannot be called, and the broken rule.
type unusableError struct {
	rule    Rule
	message string
}

func (e *unusableError) Error() string { return e.message }

// Close ends the connection, and a started process with its children: in order, or else by force. It returns when
// nothing is left of them, some seconds later at most. Closing again has no effect.
func (p *Plugin) Close() {
	if p.program != nil {
		p.program.Close()
	}
	_ = p.conn.Close() // a failure has no effect
}

// Info is the description of a plugin by itself.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, and of its sdk.
	Version, SDKVersion string
	// Types of its deploy items; none for a plugin of nothing but hooks.
	Types []v1alpha1.DeployItemType
	// HookedTypes of deploy items for its hooks; none if these are its own types.
	HookedTypes []v1alpha1.DeployItemType
	// Capabilities are its optional parts of the protocol.
	Capabilities hostside.Capabilities
	// ConfigSchema is the JSON schema of the plugin's own configuration document; empty for none.
	ConfigSchema []byte
	// ProviderConfigSchemas are the JSON schemas of provider configurations.
	ProviderConfigSchemas map[v1alpha1.DeployItemType][]byte
}

func (p *Plugin) getInfo(ctx context.Context) (*deployerv1.GetInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.Answer)
	defer cancel()
	return p.service.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: "conformance"})
}

// Info returns the description of the plugin from the time of its start or attachment.
func (p *Plugin) Info() *Info {
	in := p.info
	info := &Info{
		Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion(),
		Types:                 names[v1alpha1.DeployItemType](in.GetDeployItemTypes()),
		HookedTypes:           names[v1alpha1.DeployItemType](in.GetHookedDeployItemTypes()),
		Capabilities:          hostside.ReadCapabilities(in.GetCapabilities()),
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

// CheckHealth calls the deployer's CheckHealth once. A result in progress has the lack.
func (p *Plugin) CheckHealth(ctx context.Context, call Call) *Result {
	return p.operate(ctx, "CheckHealth", p.service.CheckHealth, call)
}

// unpicked returns the call of a job before its pick-up, if the plugin has the capability for it.
func (p *Plugin) unpicked(call Call) Call {
	call.pickUpPending = p.info.GetCapabilities().GetLatePickUp()
	return call
}

// ReconcileUntilDone calls Reconcile again while the job is in progress, or its errors say when to try again, each time
// with the last saved provider status, or until ctx ends. It returns the last result.
func (p *Plugin) ReconcileUntilDone(ctx context.Context, call Call) *Result {
	return untilDone(ctx, p.Reconcile, p.Reconcile, call)
}

// ForceReconcileUntilDone calls ForceReconcile, and then Reconcile like ReconcileUntilDone: a job is forced once.
func (p *Plugin) ForceReconcileUntilDone(ctx context.Context, call Call) *Result {
	call.Forced = true
	return untilDone(ctx, p.ForceReconcile, p.Reconcile, call)
}

// AbortUntilDone is like ReconcileUntilDone, for Abort.
func (p *Plugin) AbortUntilDone(ctx context.Context, call Call) *Result {
	return untilDone(ctx, p.Abort, p.Abort, call)
}

// DeleteUntilDone is like ReconcileUntilDone, for Delete.
func (p *Plugin) DeleteUntilDone(ctx context.Context, call Call) *Result {
	return untilDone(ctx, p.Delete, p.Delete, call)
}

func (p *Plugin) operate(ctx context.Context, name string, open exchange.Opener, call Call) *Result {
	p.meet(&call)
	return call.converse(ctx, p.limits.Silence, open, func(rule Rule, message string) {
		if p.options.Broken != nil {
			p.options.Broken(rule, name+": "+message)
		}
	})
}

// maxPoll bounds the pause of a job in progress. A deployer may be called earlier than it asked for at any time.
const maxPoll = 100 * time.Millisecond

// untilDone makes the first call of a job, until it is answered without an error, and then the next ones.
func untilDone(ctx context.Context, first, next func(context.Context, Call) *Result, call Call) *Result {
	operation := first
	for {
		result := operation(ctx, call)
		var pause time.Duration
		if result.Failed != nil {
			pause = hostside.RetryAfter(result.Failed.Errors)
		}
		if result.InProgress != nil {
			operation = next
			pause = min(cmp.Or(max(result.InProgress.PollAfter, 0), maxPoll), maxPoll)
		}
		if pause == 0 {
			return result
		}
		select {
		case <-ctx.Done():
			return result
		case <-time.After(pause):
		}
		call = call.After(result)
	}
}
