package controller

import (
	"context"
	"slices"
	"sync"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// fakeDeployer is a plugin whose calls are functions.
type fakeDeployer struct {
	name         string
	itemType     v1alpha1.DeployItemType
	capabilities plugin.Capabilities
	call         func(
		ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer,
	) (*plugin.Outcome, error)
	// hooks are those that it has, for its own type; see capabilities.HookTypes.
	hooks func(
		ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
	) ([]plugin.HookOutcome, error)
	build string
	// render tells the desired objects; see capabilities.Render.
	render func(ctx context.Context, c plugin.Call) (*plugin.Rendered, error)
}

var _ deployer = (*fakeDeployer)(nil)

func (d *fakeDeployer) Name() string { return d.name }

func (d *fakeDeployer) Info() plugin.Info {
	return plugin.Info{
		Name: d.name, Version: "v1", Types: []v1alpha1.DeployItemType{d.itemType}, Capabilities: d.capabilities,
	}
}

func (d *fakeDeployer) Call(
	ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer,
) (*plugin.Outcome, error) {
	return d.call(ctx, op, c, observer)
}

func (d *fakeDeployer) Build() string { return "b" + d.build }

func (d *fakeDeployer) RunHooks(
	ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) ([]plugin.HookOutcome, error) {
	return d.hooks(ctx, t, item, target)
}

func (d *fakeDeployer) Render(ctx context.Context, c plugin.Call) (*plugin.Rendered, error) {
	return d.render(ctx, c)
}

// fakePlugins are plugins of which those run that are not said to be down.
type fakePlugins struct {
	mu      sync.Mutex
	serving []*fakeDeployer
	hooking []*fakeDeployer // besides those that serve and have hooks themselves
	down    map[string]bool
	started bool // see plugin.Set.Started
}

var _ plugins = (*fakePlugins)(nil)

func (p *fakePlugins) Serving() []deployer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var serving []deployer
	for _, d := range p.serving {
		serving = append(serving, d)
	}
	return serving
}

func (p *fakePlugins) Hooking(itemType v1alpha1.DeployItemType) []pluginhook.Plugin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hooking []pluginhook.Plugin
	for _, d := range slices.Concat(p.serving, p.hooking) {
		if d.itemType == itemType && d.hooks != nil {
			hooking = append(hooking, d)
		}
	}
	return hooking
}

func (p *fakePlugins) For(itemType v1alpha1.DeployItemType) deployer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.serving {
		if d.itemType == itemType {
			return d
		}
	}
	return nil
}

func (p *fakePlugins) Started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

func (p *fakePlugins) Unserved(itemType v1alpha1.DeployItemType) string {
	if !p.Started() || p.For(itemType) != nil {
		return ""
	}
	return "nobody serves " + string(itemType)
}

func (p *fakePlugins) Running() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := map[string]bool{}
	for _, d := range p.serving {
		running[d.name] = !p.down[d.name]
	}
	return running
}

// change changes the plugins.
func (p *fakePlugins) change(change func(*fakePlugins)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}
