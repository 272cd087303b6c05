package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/plugins/testplugin/trace"
)

// watchInterval is how often a deployer looks for the files that it waits for.
const watchInterval = 10 * time.Millisecond

// config is the provider configuration of probe and tracer.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Trace is a file to which each call of the probe appends a line.
	Trace trace.File `json:"trace,omitempty"`
	// WaitFor is a file; the job is in progress until it exists. Its appearance wakes the host.
	WaitFor string `json:"waitFor,omitempty"`
	// PollAfter is when the host is to ask again meanwhile; zero for an hour.
	PollAfter metav1.Duration `json:"pollAfter,omitzero"`
	// BlockUntil is a file; the call does not return until it exists, the host asks to stop, or the context ends.
	BlockUntil string `json:"blockUntil,omitempty"`
	// AbortUntil is a file; an abort is in progress until it exists, and wants to be asked often. Nothing wakes the
	// host.
	AbortUntil string `json:"abortUntil,omitempty"`
	// Progress is a step and a message that are reported at the beginning of the call.
	Progress map[string]string `json:"progress,omitempty"`
	// CrashUnless is a file; without it the process ends in the middle of the call.
	CrashUnless string `json:"crashUnless,omitempty"`
	// Panic lets the call panic.
	Panic bool `json:"panic,omitempty"`
	// Log is logged as a warning with fields.
	Log string `json:"log,omitempty"`
	// Event is recorded as an event.
	Event string `json:"event,omitempty"`

	// Hooks is what the tracer's hooks of a type do. The others have no opinion.
	Hooks map[hook.Type]behaviour `json:"hooks,omitempty"`
}

// behaviour is what a hook does: it hangs if it is told to, and else returns a result.
type behaviour struct {
	// Unless is a file; the hook has no opinion once it exists.
	Unless string `json:"unless,omitempty"`
	// Hang lets the hook return when its time is up.
	Hang bool `json:"hang,omitempty"`
	// Abort and RequeueAfter are the result.
	Abort        bool            `json:"abort,omitempty"`
	RequeueAfter metav1.Duration `json:"requeueAfter,omitzero"`
}

// deployer does what the provider configuration of an item says.
type deployer struct {
	trace trace.File // for items whose configuration names none

	mu      sync.Mutex
	waiting map[[2]string]string // file by namespace and name of the item
}

// tracer is a deployer that has hooks.
type tracer struct{ *deployer }

var (
	_ sdk.Aborter         = (*deployer)(nil)
	_ sdk.ForceReconciler = (*deployer)(nil)
	_ sdk.Watcher         = (*deployer)(nil)
	_ sdk.Hooker          = tracer{}
)

func newDeployer(file trace.File) *deployer {
	return &deployer{trace: file, waiting: map[[2]string]string{}}
}

// Reconcile behaves as it is told.
func (d *deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.operate(ctx, req, "Reconcile", "reconcile")
}

// Delete behaves as it is told.
func (d *deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.operate(ctx, req, "Delete", "delete")
}

// ForceReconcile behaves as it is told.
func (d *deployer) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.operate(ctx, req, "ForceReconcile", "force-reconcile")
}

// Abort neither waits nor blocks for the files that the other operations wait for.
func (d *deployer) Abort(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	c, err := d.begin(req, "Abort", "abort")
	if err == nil && missing(c.AbortUntil) {
		return sdk.WaitFor("the file "+c.AbortUntil, time.Millisecond), nil
	}
	return nil, err
}

// begin reads the configuration and leaves the trace of a call: a record of the method, or a line that begins with the
// operation.
func (d *deployer) begin(req *sdk.Request, method, operation string) (*config, error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	if c.Trace != "" {
		return c, c.Trace.AddLine(fmt.Sprintf("%s %s %d", operation, req.JobID, os.Getpid()))
	}
	return c, d.trace.Add("tracer", method, req.DeployItem, nil)
}

func (d *deployer) operate(ctx context.Context, req *sdk.Request, method, operation string) (*sdk.Response, error) {
	c, err := d.begin(req, method, operation)
	if err != nil {
		return nil, err
	}
	say(c, req)
	switch {
	case c.Panic:
		panic("the configuration asks for it") //nolint:forbidigo // that is the point
	case missing(c.CrashUnless):
		os.Exit(7)
	case missing(c.WaitFor):
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting[[2]string{req.DeployItem.Namespace, req.DeployItem.Name}] = c.WaitFor
		return sdk.WaitFor("the file "+c.WaitFor, cmp.Or(c.PollAfter.Duration, time.Hour)), nil
	}
	return nil, block(ctx, req, c)
}

// say tells the host what it is told to.
func say(c *config, req *sdk.Request) {
	if c.Log != "" {
		req.Log.Warn(c.Log, "number", int64(9007199254740993), "msg", "an attribute of that name")
	}
	if c.Progress != nil {
		req.Progress(c.Progress["step"], c.Progress["message"])
	}
	if c.Event != "" {
		req.Event("Probed", c.Event)
	}
}

// block blocks the call. When it is stopped it leaves a trace with the time.
func block(ctx context.Context, req *sdk.Request, c *config) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for missing(c.BlockUntil) {
		select {
		case <-ticker.C:
			continue
		case <-req.Stopping():
		case <-ctx.Done():
		}
		line := fmt.Sprintf("stopped %s %d %s", req.JobID, os.Getpid(), time.Now().Format(time.RFC3339Nano))
		return errors.Join(errors.New("the host has stopped the call"), c.Trace.AddLine(line))
	}
	return nil
}

// Watch wakes the host for items whose file has appeared.
func (d *deployer) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		d.mu.Lock()
		for item, file := range d.waiting {
			if exists(file) {
				req.Wake(item[0], item[1])
				delete(d.waiting, item)
			}
		}
		d.mu.Unlock()
		<-ticker.C
	}
	return nil
}

// Hooks are one function of all types, which records and behaves as it is told.
func (t tracer) Hooks() hook.Hooks { return hook.Hooks{}.RegisterHook(t.hook, hook.Types()...) }

func (t tracer) hook(
	ctx context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, hookType hook.Type,
) (*hook.Result, error) {
	c := config{}
	if item != nil && item.Spec.Config != nil {
		if err := json.Unmarshal(item.Spec.Config.Raw, &c); err != nil {
			return nil, err
		}
	}
	b, ok := c.Hooks[hookType]
	err := t.trace.Add("tracer", string(hookType), item, target)
	if err != nil || !ok || b.Unless != "" && exists(b.Unless) {
		return nil, err
	}
	if b.Hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return &hook.Result{AbortReconcile: b.Abort, RequeueAfter: b.RequeueAfter.Duration}, nil
}

// missing reports whether the configuration names a file that does not exist.
func missing(file string) bool { return file != "" && !exists(file) }
