// Command probe is a deployer for tests of the host: its provider configuration says how it is to behave, and it leaves traces
// in files, so that a test can see what it was called for and decide when it goes on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
)

// watchInterval is how often the probe looks for the files that waiting items wait for.
const watchInterval = 10 * time.Millisecond

// config is the provider configuration.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Trace is a file to which each call appends a line.
	Trace string `json:"trace"`
	// WaitFor is a file; the job is in progress until it exists. Its appearance wakes the host.
	WaitFor string `json:"waitFor,omitempty"`
	// BlockUntil is a file; the call does not return until it exists, the host asks to stop, or the context ends.
	BlockUntil string `json:"blockUntil,omitempty"`
	// Stubborn lets BlockUntil alone decide when the call returns, whatever the host wants.
	Stubborn bool `json:"stubborn,omitempty"`
	// AbortUntil is a file; an abort is in progress until it exists, and wants to be asked often. Nothing wakes the host.
	AbortUntil string `json:"abortUntil,omitempty"`
	// AbortFails lets an abort fail for good.
	AbortFails bool `json:"abortFails,omitempty"`
	// Progress is reported at the beginning of the call.
	Progress *progress `json:"progress,omitempty"`
	// CrashUnless is a file; without it the process ends in the middle of the call.
	CrashUnless string `json:"crashUnless,omitempty"`
	// Panic lets the call panic.
	Panic bool `json:"panic,omitempty"`
	// Log is logged as a warning with fields.
	Log string `json:"log,omitempty"`
	// Event is recorded as an event.
	Event string `json:"event,omitempty"`
	// Events is how many events more are recorded, each with a reason of its own.
	Events int `json:"events,omitempty"`
}

type progress struct {
	Step    string `json:"step"`
	Message string `json:"message"`
}

type probe struct {
	mu      sync.Mutex
	waiting map[[2]string]string // file by namespace and name of the item
}

var (
	_ sdk.Deployer        = (*probe)(nil)
	_ sdk.Aborter         = (*probe)(nil)
	_ sdk.ForceReconciler = (*probe)(nil)
	_ sdk.Watcher         = (*probe)(nil)
)

func main() {
	sdk.Serve(&probe{waiting: map[[2]string]string{}}, sdk.Name("probe"), sdk.Version("v1"), sdk.Types("test.pergola.dev/probe"))
}

// Reconcile behaves as it is told.
func (p *probe) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return p.operate(ctx, "reconcile", req)
}

// Delete behaves as it is told.
func (p *probe) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return p.operate(ctx, "delete", req)
}

// ForceReconcile behaves as it is told.
func (p *probe) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return p.operate(ctx, "force-reconcile", req)
}

// Abort neither waits nor blocks for the files that the other operations wait for.
func (p *probe) Abort(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	c, err := begin("abort", req)
	if err != nil {
		return nil, err
	}
	if c.AbortFails {
		return nil, sdk.ConfigurationError("AbortFailed", "the configuration asks for it")
	}
	if c.AbortUntil != "" && !exists(c.AbortUntil) {
		return sdk.WaitFor("the file "+c.AbortUntil, time.Millisecond), nil
	}
	return nil, nil //nolint:nilnil // done, without anything to report
}

// begin reads the configuration and leaves the trace of a call.
func begin(operation string, req *sdk.Request) (*config, error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	return c, appendLine(c.Trace, fmt.Sprintf("%s %s %d", operation, req.JobID, os.Getpid()))
}

func (p *probe) operate(ctx context.Context, operation string, req *sdk.Request) (*sdk.Response, error) {
	c, err := begin(operation, req)
	if err != nil {
		return nil, err
	}
	say(c, req)
	if c.Panic {
		panic("the configuration asks for it") //nolint:forbidigo // that is the point
	}
	if c.CrashUnless != "" && !exists(c.CrashUnless) {
		os.Exit(7)
	}
	if c.WaitFor != "" && !exists(c.WaitFor) {
		p.mu.Lock()
		p.waiting[[2]string{req.DeployItem.Namespace, req.DeployItem.Name}] = c.WaitFor
		p.mu.Unlock()
		return sdk.WaitFor("the file "+c.WaitFor, time.Hour), nil
	}
	return nil, block(ctx, req, c)
}

// say tells the host what it is told to.
func say(c *config, req *sdk.Request) {
	if c.Log != "" {
		req.Log.Warn(c.Log, "number", int64(9007199254740993), "msg", "an attribute of that name")
	}
	if c.Progress != nil {
		req.Progress(c.Progress.Step, c.Progress.Message)
	}
	if c.Event != "" {
		req.Event("Probed", c.Event)
	}
	for i := range c.Events {
		req.Event(fmt.Sprintf("Probed%d", i), "one of many")
	}
}

// block blocks the call. When it is stopped it leaves a trace with the time.
func block(ctx context.Context, req *sdk.Request, c *config) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	stopping, cancelled := req.Stopping(), ctx.Done()
	if c.Stubborn {
		stopping, cancelled = nil, nil
	}
	for c.BlockUntil != "" && !exists(c.BlockUntil) {
		var reason error
		select {
		case <-ticker.C:
			continue
		case <-stopping:
			reason = errors.New("asked to stop")
		case <-cancelled:
			reason = context.Cause(ctx)
		}
		line := fmt.Sprintf("stopped %s %d %s", req.JobID, os.Getpid(), time.Now().Format(time.RFC3339Nano))
		return errors.Join(reason, appendLine(c.Trace, line))
	}
	return nil
}

// Watch wakes the host for items whose file has appeared.
func (p *probe) Watch(ctx context.Context, wake func(namespace, name string)) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		p.mu.Lock()
		for item, file := range p.waiting {
			if exists(file) {
				wake(item[0], item[1])
				delete(p.waiting, item)
			}
		}
		p.mu.Unlock()
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open trace: %w", err)
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return f.Close()
}
