package sdktest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// endWithin is how soon calls have to end after they were told to.
const endWithin = 10 * time.Second

// New serves the deployer within this process, with the options for sdk.Serve. Its log goes to the log of the test.
// Wrong options fail the test at once. The end of the test ends its calls; a call without an end breaks the rule
// call-ends.
func New(t testing.TB, deployer sdk.Deployer, opts ...sdk.Option) *Plugin {
	t.Helper()
	return serve(t, endWithin, ofDeployer(deployer, opts))
}

// NewHooks is to sdk.ServeHooks what New is to sdk.Serve.
func NewHooks(t testing.TB, hooks hook.Hooks, opts ...sdk.Option) *Plugin {
	t.Helper()
	return serve(t, endWithin, func(ctx context.Context, log *slog.Logger) (net.Addr, <-chan struct{}, error) {
		return sdk.ServeHooksInProcess(ctx, log, hooks, opts...)
	})
}

// server serves a plugin within this process until ctx ends, as sdk.ServeInProcess does.
type server func(ctx context.Context, log *slog.Logger) (at net.Addr, done <-chan struct{}, err error)

func ofDeployer(deployer sdk.Deployer, opts []sdk.Option) server {
	return func(ctx context.Context, log *slog.Logger) (net.Addr, <-chan struct{}, error) {
		return sdk.ServeInProcess(ctx, log, deployer, opts...)
	}
}

func serve(t testing.TB, endWithin time.Duration, server server) *Plugin {
	t.Helper()
	out := newOutput(t)
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	// t.Context ends before the cleanup functions of the test, and these may still call the plugin.
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
			t.Errorf("sdktest: rule %s is broken: end of the test: a call has not returned %s after it was cancelled",
				conformance.RuleCallEnds, endWithin)
		}
		out.close()
	})
	plugin, err := conformance.Attach(ctx, at.Network()+":"+at.String(), conformance.Options{Broken: reportTo(t)})
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	t.Cleanup(plugin.Close)
	out.through(plugin.Log)
	return plugin
}

// Start starts a plugin binary as the host does and ends it with the test. Its standard output and standard error go to
// the log of the test. A program other than a plugin fails the test at once. env adds environment variables of the form
// "name=value".
func Start(t testing.TB, binary string, env ...string) *Plugin {
	t.Helper()
	out := newOutput(t)
	t.Cleanup(out.close)
	plugin, err := conformance.Start(t.Context(), binary, conformance.Options{Env: env, Output: out, Broken: reportTo(t)})
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	t.Cleanup(plugin.Close)
	return plugin
}

// Conform checks the rules of package conformance and reports each broken rule by its name. It deploys the item of each
// case in turn and deletes it again. The plugin keeps its configuration. Start and end of the program are checked only
// for a plugin from Start, with processes of their own.
func Conform(t testing.TB, plugin *Plugin, cases ...Case) {
	t.Helper()
	report, err := plugin.Check(t.Context(), conformance.Options{Cases: cases, KeepConfiguration: true})
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	for _, broken := range report.Broken() {
		for _, message := range broken.Messages {
			reportTo(t)(broken.Rule, message)
		}
	}
}

func reportTo(t testing.TB) func(conformance.Rule, string) {
	return func(rule conformance.Rule, message string) {
		t.Helper()
		t.Errorf("sdktest: rule %s is broken: %s\n%s", rule, message, rule.Text())
	}
}

// output passes the output of a plugin on to the test, until the test ends: testing panics on a write after that.
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

// through passes the output through another writer.
func (o *output) through(writer func(io.Writer) io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = writer(o.w)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
