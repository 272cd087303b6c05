package intake

import (
	"context"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Deployer is a *plugin.Plugin.
type Deployer interface {
	Name() string
	Info() plugin.Info
	Call(ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer) (*plugin.Outcome, error)
	Render(ctx context.Context, c plugin.Call) (*plugin.Rendered, error)
	Validate(ctx context.Context, c plugin.Call) (*plugin.Validation, error)
	Build() string
	RunHooks(ctx context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error)
}

// Plugins are the plugins of a host; see PluginSet.
type Plugins interface {
	Serving() []Deployer
	// For returns the plugin for a type; nil if it is not served.
	For(itemType v1alpha1.DeployItemType) Deployer
	// Started and Unserved: see plugin.Set.
	Started() bool
	Unserved(itemType v1alpha1.DeployItemType) string
	// Hooking returns the plugins with hooks for a type, in the order of the calls.
	Hooking(itemType v1alpha1.DeployItemType) []pluginhook.Plugin
	// Running has the names of the plugins that take calls now, and Standby those of them that have no process.
	Running() map[string]bool
	Standby() map[string]bool
}

// PluginSet are the plugins of a plugin.Set.
type PluginSet struct{ *plugin.Set }

var _ Plugins = PluginSet{}

// Serving implements Plugins.
func (s PluginSet) Serving() (serving []Deployer) {
	for _, p := range s.Set.Serving() {
		serving = append(serving, p)
	}
	return serving
}

// For implements Plugins.
func (s PluginSet) For(itemType v1alpha1.DeployItemType) Deployer {
	if p := s.Set.For(itemType); p != nil {
		return p
	}
	return nil
}

// Hooking implements Plugins.
func (s PluginSet) Hooking(itemType v1alpha1.DeployItemType) (hooking []pluginhook.Plugin) {
	for _, p := range s.Set.Hooking(itemType) {
		hooking = append(hooking, p)
	}
	return hooking
}

// Running implements Plugins.
func (s PluginSet) Running() map[string]bool { return s.names(plugin.Status.TakesCalls) }

// Standby implements Plugins.
func (s PluginSet) Standby() map[string]bool {
	return s.names(func(status plugin.Status) bool { return status.State == plugin.Standby })
}

// names returns the names of the plugins with a status.
func (s PluginSet) names(has func(plugin.Status) bool) map[string]bool {
	names := map[string]bool{}
	for _, status := range s.Status() {
		if has(status) && status.Info != nil {
			names[status.Info.Name] = true
		}
	}
	return names
}
