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
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/test/plugins/tracer/trace"
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
	// PollAfter is when the host is to ask again meanwhile; zero for what the deployer does by default.
	PollAfter metav1.Duration `json:"pollAfter,omitzero"`
	// BlockUntil is a file; the call does not return until it exists, the host asks to stop, or the context ends.
	BlockUntil string `json:"blockUntil,omitempty"`
	// Stubborn lets BlockUntil alone decide when the call returns, whatever the host wants.
	Stubborn bool `json:"stubborn,omitempty"`
	// AbortUntil is a file; an abort is in progress until it exists, and wants to be asked often. Nothing wakes the host.
	AbortUntil string `json:"abortUntil,omitempty"`
	// AbortFails lets an abort fail for good.
	AbortFails bool `json:"abortFails,omitempty"`
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
	// Events is how many events more are recorded, each with a reason of its own.
	Events int `json:"events,omitempty"`

	// Hooks is what the tracer's hooks of a type do. The others have no opinion.
	Hooks map[hook.Type]behaviour `json:"hooks,omitempty"`
	// Children are the tracer's desired objects by their names, which go nowhere.
	Children map[string]json.RawMessage `json:"children,omitempty"`
	// ContinuousReconcile is the tracer's schedule.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
}

// behaviour is what a hook does: it hangs, crashes, panics or fails if it is told to, and else returns a result.
type behaviour struct {
	// Unless is a file; the hook has no opinion once it exists.
	Unless string `json:"unless,omitempty"`
	// Job is a file; the hook has an opinion only while it holds the item's job.
	Job string `json:"job,omitempty"`
	// Hang lets the hook return when its time is up.
	Hang bool `json:"hang,omitempty"`
	// Crash ends the process.
	Crash bool `json:"crash,omitempty"`
	// Panic lets the hook panic.
	Panic bool `json:"panic,omitempty"`
	// Error is the text of the hook's error; empty for none.
	Error string `json:"error,omitempty"`
	// Code classifies the error; empty for none.
	Code v1alpha1.ErrorCode `json:"code,omitempty"`
	// Abort, Requeue and RequeueAfter are the result.
	Abort        bool            `json:"abort,omitempty"`
	Requeue      bool            `json:"requeue,omitempty"`
	RequeueAfter metav1.Duration `json:"requeueAfter,omitzero"`
}

// deployer does what the provider configuration of an item says.
type deployer struct {
	pollAfter time.Duration // for an item whose configuration says nothing else
	trace     trace.File    // for an item whose configuration names none

	mu      sync.Mutex
	waiting map[[2]string]string // file by namespace and name of the item
}

// tracer is a deployer that renders objects and has hooks.
type tracer struct{ *deployer }

var (
	_ sdk.Aborter         = (*deployer)(nil)
	_ sdk.ForceReconciler = (*deployer)(nil)
	_ sdk.Watcher         = (*deployer)(nil)
	_ sdk.Renderer        = tracer{}
	_ sdk.Hooker          = tracer{}
)

func newDeployer(pollAfter time.Duration, file trace.File) *deployer {
	return &deployer{pollAfter: pollAfter, trace: file, waiting: map[[2]string]string{}}
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
	switch {
	case err != nil:
		return nil, err
	case c.AbortFails:
		return nil, sdk.ConfigurationError("AbortFailed", "the configuration asks for it")
	case missing(c.AbortUntil):
		return sdk.WaitFor("the file "+c.AbortUntil, time.Millisecond), nil
	}
	return nil, nil //nolint:nilnil // done, without anything to report
}

// Render tells the children of the configuration.
func (t tracer) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	c, err := t.begin(req, "Render", "")
	if err != nil {
		return nil, err
	}
	out := &sdk.RenderResponse{}
	for name, object := range c.Children {
		out.Children = append(out.Children, sdk.Child{Name: name, Object: object})
	}
	return out, nil
}

// begin reads the configuration and leaves the trace of a call: a record of the method, or a line that begins with the operation.
func (d *deployer) begin(req *sdk.Request, method, operation string) (*config, error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	if c.Trace != "" {
		return c, c.Trace.AddLine(fmt.Sprintf("%s %s %d", operation, req.JobID, os.Getpid()))
	}
	r := trace.New("tracer", method, req.DeployItem)
	r.JobID, r.Children = req.JobID, map[string]json.RawMessage{}
	for _, child := range req.Children {
		r.Children[child.Name] = child.Object
	}
	return c, d.trace.Add(r)
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
		return sdk.WaitFor("the file "+c.WaitFor, cmp.Or(c.PollAfter.Duration, d.pollAfter)), nil
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
	for missing(c.BlockUntil) {
		select {
		case <-ticker.C:
			continue
		case <-stopping:
		case <-cancelled:
		}
		line := fmt.Sprintf("stopped %s %d %s", req.JobID, os.Getpid(), time.Now().Format(time.RFC3339Nano))
		return errors.Join(errors.New("the host has stopped the call"), c.Trace.AddLine(line))
	}
	return nil
}

// Watch wakes the host for items whose file has appeared.
func (d *deployer) Watch(ctx context.Context, wake func(namespace, name string)) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		d.mu.Lock()
		for item, file := range d.waiting {
			if exists(file) {
				wake(item[0], item[1])
				delete(d.waiting, item)
			}
		}
		d.mu.Unlock()
		<-ticker.C
	}
	return nil
}

// Hooks are one function of all types, which records and behaves as it is told, and the schedule.
func (t tracer) Hooks() hook.Hooks {
	hooks := hook.Hooks{}.RegisterHook(t.hook, hook.Types()...)
	return hooks.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(schedule)))
}

func schedule(item *v1alpha1.DeployItem) (*managedresource.ContinuousReconcile, error) {
	c, err := configOf(item)
	return c.ContinuousReconcile, err
}

func configOf(item *v1alpha1.DeployItem) (c config, err error) {
	if item == nil || item.Spec.Config == nil {
		return c, nil
	}
	return c, json.Unmarshal(item.Spec.Config.Raw, &c)
}

func (t tracer) hook(ctx context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, hookType hook.Type) (*hook.Result, error) {
	c, err := configOf(item)
	if err != nil {
		return nil, err
	}
	b, ok := c.Hooks[hookType]
	if _, err := t.trace.Hook("tracer")(ctx, item, target, hookType); err != nil || !ok || b.Unless != "" && exists(b.Unless) {
		return nil, err
	}
	if b.Job != "" {
		if job, err := os.ReadFile(b.Job); err != nil || string(job) != item.Status.JobID {
			return nil, nil //nolint:nilnil,nilerr // no opinion, as long as there is no file
		}
	}
	switch {
	case b.Hang:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case b.Crash:
		os.Exit(7)
	case b.Panic:
		panic("the configuration asks for it") //nolint:forbidigo // that is the point
	case b.Code != "":
		return nil, &sdk.Error{Codes: []v1alpha1.ErrorCode{b.Code}, Reason: "AskedFor", Err: errors.New(b.Error)}
	case b.Error != "":
		return nil, errors.New(b.Error)
	}
	return &hook.Result{AbortReconcile: b.Abort, Requeue: b.Requeue, RequeueAfter: b.RequeueAfter.Duration}, nil
}

// missing tells whether the configuration names a file that does not exist.
func missing(file string) bool { return file != "" && !exists(file) }
