package controller

import (
	"context"
	"sync"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakeDeployer is a plugin whose calls are functions.
type fakeDeployer struct {
	name         string
	itemType     v1alpha1.DeployItemType
	capabilities plugin.Capabilities
	call         func(ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer) (*plugin.Outcome, error)
}

var _ deployer = (*fakeDeployer)(nil)

func (d *fakeDeployer) Name() string { return d.name }

func (d *fakeDeployer) Info() plugin.Info {
	return plugin.Info{Name: d.name, Version: "v1", Types: []v1alpha1.DeployItemType{d.itemType}, Capabilities: d.capabilities}
}

func (d *fakeDeployer) Call(ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer) (*plugin.Outcome, error) {
	return d.call(ctx, op, c, observer)
}

// fakePlugins are plugins of which those run that are not said to be down.
type fakePlugins struct {
	mu      sync.Mutex
	serving []*fakeDeployer
	down    map[string]bool
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
