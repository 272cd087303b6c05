// Command tracer is a deployer for tests of hooks. It has hooks of all types, and records each call of them and of its methods in the
// file that its first argument names, in none without one. What its hooks do is up to the provider configuration of the item.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/test/plugins/tracer/trace"
)

const name = "tracer"

// pollAfter is the pause between the calls of a job that waits, if its configuration has none.
const pollAfter = 20 * time.Millisecond

// config is the provider configuration.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Hooks is what the hooks of a type do. The others have no opinion.
	Hooks map[hook.Type]behaviour `json:"hooks,omitempty"`
	// Children are the desired objects by their names, which go nowhere.
	Children map[string]json.RawMessage `json:"children,omitempty"`
	// WaitFor is a file; a reconcile or a deletion is in progress until it exists.
	WaitFor string `json:"waitFor,omitempty"`
	// PollAfter is the pause between its calls meanwhile.
	PollAfter string `json:"pollAfter,omitempty"`
	// ContinuousReconcile is the schedule.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
	// Revision means nothing: a user changes it.
	Revision int `json:"revision,omitempty"`
}

type tracer struct{ trace trace.File }

var (
	_ sdk.Deployer        = tracer{}
	_ sdk.Aborter         = tracer{}
	_ sdk.ForceReconciler = tracer{}
	_ sdk.Renderer        = tracer{}
	_ sdk.Hooker          = tracer{}
)

func main() {
	t := tracer{}
	if len(os.Args) > 1 {
		t.trace = trace.File(os.Args[1])
	}
	sdk.Serve(t, sdk.Name(name), sdk.Version("v1"), sdk.Types("example.org/trace"))
}

// Hooks are one function of all types, which records and behaves as it is told, and the schedule.
func (t tracer) Hooks() hook.Hooks {
	hooks := hook.Hooks{}
	return hooks.RegisterHook(t.hook, hook.Types()...).RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(schedule)))
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
	if _, err := t.trace.Hook(name)(ctx, item, target, hookType); err != nil {
		return nil, err
	}
	c, err := configOf(item)
	if err != nil {
		return nil, err
	}
	b, ok := c.Hooks[hookType]
	if !ok {
		return nil, nil //nolint:nilnil // no opinion
	}
	return b.behave(ctx, item)
}

// Render tells the children of the configuration.
func (t tracer) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	c, err := t.begin("Render", req)
	if err != nil {
		return nil, err
	}
	out := &sdk.RenderResponse{}
	for childName, object := range c.Children {
		out.Children = append(out.Children, sdk.Child{Name: childName, Object: object})
	}
	return out, nil
}

// Reconcile does nothing.
func (t tracer) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return t.operate("Reconcile", req)
}

// ForceReconcile does nothing.
func (t tracer) ForceReconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return t.operate("ForceReconcile", req)
}

// Delete does nothing.
func (t tracer) Delete(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return t.operate("Delete", req)
}

// Abort does nothing.
func (t tracer) Abort(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	_, err := t.begin("Abort", req)
	return nil, err
}

func (t tracer) operate(step string, req *sdk.Request) (*sdk.Response, error) {
	c, err := t.begin(step, req)
	if err != nil {
		return nil, err
	}
	if c.WaitFor == "" || exists(c.WaitFor) {
		return nil, nil //nolint:nilnil // done, without anything to report
	}
	pause := pollAfter
	if c.PollAfter != "" {
		if pause, err = time.ParseDuration(c.PollAfter); err != nil {
			return nil, fmt.Errorf("pollAfter: %w", err)
		}
	}
	return sdk.WaitFor("the file "+c.WaitFor, pause), nil
}

// begin reads the configuration and records the call.
func (t tracer) begin(step string, req *sdk.Request) (*config, error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	r := trace.New(name, step, req.DeployItem)
	r.JobID = req.JobID
	for _, child := range req.Children {
		if r.Children == nil {
			r.Children = map[string]json.RawMessage{}
		}
		r.Children[child.Name] = child.Object
	}
	return c, t.trace.Add(r)
}
