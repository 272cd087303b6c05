// Package intaketest has plugins whose calls and hooks are functions, for tests.
package intaketest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Deployer is a plugin for one type of items. Its functions are only needed if they are called.
type Deployer struct {
	PluginName   string
	Type         v1alpha1.DeployItemType
	Capabilities plugin.Capabilities
	Limits       plugin.Limits
	// OnCall answers Call, OnHooks RunHooks, OnRender Render, and OnValidate Validate.
	OnCall func(
		ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer,
	) (*plugin.Outcome, error)
	OnHooks    func(ctx context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error)
	OnRender   func(ctx context.Context, c plugin.Call) (*plugin.Rendered, error)
	OnValidate func(ctx context.Context, c plugin.Call) (*plugin.Validation, error)
}

var _ intake.Deployer = (*Deployer)(nil)

// Name implements intake.Deployer.
func (d *Deployer) Name() string { return d.PluginName }

// Info implements intake.Deployer.
func (d *Deployer) Info() plugin.Info {
	return plugin.Info{
		Name: d.PluginName, Version: "v1", Types: []v1alpha1.DeployItemType{d.Type}, Capabilities: d.Capabilities,
		Limits: d.Limits,
	}
}

// Build implements intake.Deployer.
func (d *Deployer) Build() string { return "b" }

// Call implements intake.Deployer.
func (d *Deployer) Call(
	ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer,
) (*plugin.Outcome, error) {
	return d.OnCall(ctx, op, c, observer)
}

// RunHooks implements intake.Deployer.
func (d *Deployer) RunHooks(ctx context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error) {
	return d.OnHooks(ctx, call)
}

// Render implements intake.Deployer.
func (d *Deployer) Render(ctx context.Context, c plugin.Call) (*plugin.Rendered, error) {
	return d.OnRender(ctx, c)
}

// Validate implements intake.Deployer.
func (d *Deployer) Validate(ctx context.Context, c plugin.Call) (*plugin.Validation, error) {
	return d.OnValidate(ctx, c)
}

// Plugins are plugins that serve their types, and plugins with hooks only. They are changed by Change.
type Plugins struct {
	mu         sync.Mutex
	Serve      []*Deployer
	HooksOnly  []*Deployer
	Down       map[string]bool // by name; all others run
	StandingBy map[string]bool // by name
	AllStarted bool
}

var _ intake.Plugins = (*Plugins)(nil)

// Change changes the plugins.
func (p *Plugins) Change(change func(*Plugins)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// Serving implements intake.Plugins.
func (p *Plugins) Serving() []intake.Deployer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var serving []intake.Deployer
	for _, d := range p.Serve {
		serving = append(serving, d)
	}
	return serving
}

// Hooking implements intake.Plugins.
func (p *Plugins) Hooking(itemType v1alpha1.DeployItemType) []pluginhook.Plugin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hooking []pluginhook.Plugin
	for _, d := range slices.Concat(p.Serve, p.HooksOnly) {
		if d.Type == itemType && d.OnHooks != nil {
			hooking = append(hooking, d)
		}
	}
	return hooking
}

// For implements intake.Plugins.
func (p *Plugins) For(itemType v1alpha1.DeployItemType) intake.Deployer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.Serve {
		if d.Type == itemType {
			return d
		}
	}
	return nil
}

// Started implements intake.Plugins.
func (p *Plugins) Started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AllStarted
}

// Unserved implements intake.Plugins.
func (p *Plugins) Unserved(itemType v1alpha1.DeployItemType) string {
	if !p.Started() || p.For(itemType) != nil {
		return ""
	}
	return "no plugin serves " + string(itemType)
}

// Running implements intake.Plugins.
func (p *Plugins) Running() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := map[string]bool{}
	for _, d := range p.Serve {
		running[d.PluginName] = !p.Down[d.PluginName]
	}
	return running
}

// Standby implements intake.Plugins.
func (p *Plugins) Standby() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.StandingBy)
}
