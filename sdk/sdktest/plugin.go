package sdktest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// endWithin is how soon calls have to end after they were told to.
const endWithin = 10 * time.Second

// Plugin is a deployer that is called through the protocol. It ends with the test that it was made for. Its methods may be
// called from several goroutines; they report broken rules to that test.
type Plugin struct {
	t      testing.TB
	plugin *conformance.Plugin
}

// New serves the deployer within this process, with the options that its main function gives to sdk.Serve. What it logs goes
// to the log of the test. Wrong options fail the test at once. When the test ends, so do its calls; one that does not end
// breaks the rule call-ends.
func New(t testing.TB, deployer sdk.Deployer, opts ...sdk.Option) *Plugin {
	t.Helper()
	return serve(t, endWithin, ofDeployer(deployer, opts))
}

// NewHooks is to sdk.ServeHooks what New is to sdk.Serve.
func NewHooks(t testing.TB, hooks hook.Hooks, opts ...sdk.Option) *Plugin {
	t.Helper()
	return serve(t, endWithin, func(ctx context.Context, log *slog.Logger) (*sdk.Attachment, <-chan struct{}, error) {
		return sdk.ServeHooksInProcess(ctx, log, hooks, opts...)
	})
}

// server serves a plugin within this process until ctx ends, as sdk.ServeInProcess does.
type server func(ctx context.Context, log *slog.Logger) (at *sdk.Attachment, done <-chan struct{}, err error)

func ofDeployer(deployer sdk.Deployer, opts []sdk.Option) server {
	return func(ctx context.Context, log *slog.Logger) (*sdk.Attachment, <-chan struct{}, error) {
		return sdk.ServeInProcess(ctx, log, deployer, opts...)
	}
}

func serve(t testing.TB, endWithin time.Duration, server server) *Plugin {
	t.Helper()
	out := newOutput(t)
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	// t.Context ends before the cleanup functions of the test run, which may still want to delete something.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	at, done, err := server(ctx, log)
	if err != nil {
		cancel()
		t.Fatalf("sdktest: serve the plugin: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(endWithin):
			reportBroken(t, conformance.RuleCallEnds, fmt.Sprintf("end of the test: a call has not returned %s after it was cancelled", endWithin))
		}
		out.close()
	})
	return attach(t, at.Network+":"+at.Address)
}

// attach connects to a deployer that is served somewhere.
func attach(t testing.TB, address string) *Plugin {
	t.Helper()
	plugin, err := conformance.Attach(address)
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	t.Cleanup(plugin.Close)
	return &Plugin{t: t, plugin: plugin}
}

// Start starts a plugin binary as the host does and ends it with the test. What the plugin writes to its standard output and
// standard error goes to the log of the test, cut after 1 MiB. A program that is no plugin fails the test at once. env adds
// environment variables of the form "name=value".
func Start(t testing.TB, binary string, env ...string) *Plugin {
	t.Helper()
	out := newOutput(t)
	plugin, err := conformance.Start(t.Context(), binary, conformance.Options{Env: env, Output: out})
	if err != nil {
		out.close()
		t.Fatalf("sdktest: %v", err)
	}
	t.Cleanup(func() {
		plugin.Close()
		out.close()
	})
	return &Plugin{t: t, plugin: plugin}
}

// Info asks the plugin who it is and what it can do.
func (p *Plugin) Info() *Info {
	p.t.Helper()
	info, err := p.plugin.Info(context.WithoutCancel(p.t.Context()))
	if err != nil {
		p.t.Fatalf("sdktest: %v", err)
	}
	return info
}

// Reconcile calls the deployer's Reconcile once.
func (p *Plugin) Reconcile(ctx context.Context, call Call) *Result {
	p.t.Helper()
	return p.operate(ctx, "Reconcile", p.plugin.Reconcile, call)
}

// Delete calls the deployer's Delete once.
func (p *Plugin) Delete(ctx context.Context, call Call) *Result {
	p.t.Helper()
	return p.operate(ctx, "Delete", p.plugin.Delete, call)
}

// Abort calls the deployer's Abort. Without one the result has an Err.
func (p *Plugin) Abort(ctx context.Context, call Call) *Result {
	p.t.Helper()
	return p.operate(ctx, "Abort", p.plugin.Abort, call)
}

// ForceReconcile calls the deployer's ForceReconcile. Without one the result has an Err.
func (p *Plugin) ForceReconcile(ctx context.Context, call Call) *Result {
	p.t.Helper()
	return p.operate(ctx, "ForceReconcile", p.plugin.ForceReconcile, call)
}

// ReconcileUntilDone calls Reconcile, again and again while the job is in progress and each time with the provider status
// that was saved last, until it is not, or until ctx ends. It returns the last result.
func (p *Plugin) ReconcileUntilDone(ctx context.Context, call Call) *Result {
	p.t.Helper()
	return conformance.UntilDone(ctx, p.Reconcile, call)
}

// DeleteUntilDone is like ReconcileUntilDone, for Delete.
func (p *Plugin) DeleteUntilDone(ctx context.Context, call Call) *Result {
	p.t.Helper()
	return conformance.UntilDone(ctx, p.Delete, call)
}

// operate carries out one call and reports the rules that it breaks.
func (p *Plugin) operate(
	ctx context.Context, name string, operation func(context.Context, Call) (*Result, []conformance.Violation), call Call,
) *Result {
	p.t.Helper()
	if call.DeployItem == nil {
		p.t.Fatalf("sdktest: %s: the call has no deploy item", name)
	}
	result, violations := operation(ctx, call)
	for _, broken := range violations {
		reportBroken(p.t, broken.Rule, name+": "+broken.Message)
	}
	return result
}

// Configure hands over the plugin's own configuration document, YAML or JSON, empty for defaults. A host does so once, before
// any operation. The problems are what is wrong with the document.
func (p *Plugin) Configure(ctx context.Context, document []byte) ([]sdk.Problem, error) {
	return p.plugin.Configure(ctx, document)
}

// Validate checks a provider configuration, given as JSON. The problems are what is wrong with it.
func (p *Plugin) Validate(ctx context.Context, itemType v1alpha1.DeployItemType, config []byte) ([]sdk.Problem, error) {
	return p.plugin.Validate(ctx, itemType, config)
}

// Render returns the desired objects of a deploy item. When the deployer returned an error, the error is a *Failed.
func (p *Plugin) Render(ctx context.Context, call Call) ([]sdk.Child, error) {
	p.t.Helper()
	if call.DeployItem == nil {
		p.t.Fatalf("sdktest: Render: the call has no deploy item")
	}
	return p.plugin.Render(ctx, call)
}

// Diff returns what a job would change. When the deployer returned an error, the error is a *Failed.
func (p *Plugin) Diff(ctx context.Context, call Call) ([]sdk.Change, error) {
	p.t.Helper()
	if call.DeployItem == nil {
		p.t.Fatalf("sdktest: Diff: the call has no deploy item")
	}
	return p.plugin.Diff(ctx, call)
}

// RunHooks runs the hook functions of one type, in order of their registration. item and target are nil where the type says
// so.
func (p *Plugin) RunHooks(ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) ([]HookOutcome, error) {
	return p.plugin.RunHooks(ctx, hookType, item, target)
}

// Watch calls woken for each deploy item that may have moved on, one after the other, until ctx ends, which is no error, or
// the plugin ends the stream.
func (p *Plugin) Watch(ctx context.Context, woken func(namespace, name string)) error {
	return p.plugin.Watch(ctx, woken)
}

// Holdings returns what the deployer keeps. cluster is the access to the host cluster; nil for none. When the deployer returned an error, the
// error is a *Failed.
func (p *Plugin) Holdings(ctx context.Context, cluster *sdk.HostCluster) ([]sdk.Holding, error) {
	return p.plugin.Holdings(ctx, cluster)
}

// Collect tells the deployer what nobody needs any more. What is said of Holdings goes for it, too.
func (p *Plugin) Collect(ctx context.Context, cluster *sdk.HostCluster, holdings []sdk.Holding) error {
	return p.plugin.Collect(ctx, cluster, holdings)
}

// output passes what a plugin writes on to the test, until the test ends: testing panics on a write after that, and a plugin
// may write whenever it wants.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func newOutput(t testing.TB) *output { return &output{w: t.Output()} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
