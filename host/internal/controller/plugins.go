package controller

import (
	"context"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// deployer is a plugin as this package uses it; see plugin.Plugin.
type deployer interface {
	Name() string
	Info() plugin.Info
	Call(ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer) (*plugin.Outcome, error)
	Render(ctx context.Context, c plugin.Call) (*plugin.Rendered, error)
	Build() string
	RunHooks(
		ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
	) ([]plugin.HookOutcome, error)
}

// plugins are all plugins as this package uses them; see plugin.Set.
type plugins interface {
	Serving() []deployer
	// For returns nil for a type that no plugin serves.
	For(itemType v1alpha1.DeployItemType) deployer
	// Started and Unserved: see plugin.Set.
	Started() bool
	Unserved(itemType v1alpha1.DeployItemType) string
	// Hooking returns the plugins with hooks for a type, in the order of the calls.
	Hooking(itemType v1alpha1.DeployItemType) []pluginhook.Plugin
	// Running are the names of the plugins that take calls now.
	Running() map[string]bool
}

// pluginSet are the plugins of a plugin.Set.
type pluginSet struct{ *plugin.Set }

var _ plugins = pluginSet{}

func (s pluginSet) Serving() (serving []deployer) {
	for _, p := range s.Set.Serving() {
		serving = append(serving, p)
	}
	return serving
}

func (s pluginSet) For(itemType v1alpha1.DeployItemType) deployer {
	if p := s.Set.For(itemType); p != nil {
		return p
	}
	return nil
}

func (s pluginSet) Hooking(itemType v1alpha1.DeployItemType) (hooking []pluginhook.Plugin) {
	for _, p := range s.Set.Hooking(itemType) {
		hooking = append(hooking, p)
	}
	return hooking
}

func (s pluginSet) Running() map[string]bool {
	running := map[string]bool{}
	for _, status := range s.Status() {
		if status.State == plugin.Running && status.Info != nil {
			running[status.Info.Name] = true
		}
	}
	return running
}
