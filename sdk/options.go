package sdk

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/description"
)

// Release is the version of the sdk. The host shows it beside the plugin's own.
const Release = "0.1.0"

// Option configures Serve and ServeHooks.
type Option func(*plugin)

// plugin is a deployer or hooks, with their options.
type plugin struct {
	description.Plugin

	deployer Deployer               // nil for a plugin of nothing but hooks
	metrics  func() ([]byte, error) // nil for none
}

// Name sets the name of the plugin, a DNS label such as "helm". It prefixes the names of the plugin's locks and must
// stay the same over versions. Required.
func Name(name string) Option {
	return func(p *plugin) { p.Info.Name = name }
}

// Version sets the version of the plugin, free text, semantic version preferred. Defaults to "unknown".
func Version(version string) Option {
	return func(p *plugin) { p.Info.Version = version }
}

// Types sets the types of the deployer's deploy items. Required for Serve; those of several Types are added up.
func Types(types ...v1alpha1.DeployItemType) Option {
	return func(p *plugin) {
		p.Info.DeployItemTypes = append(p.Info.DeployItemTypes, wire.Each(types, typeToWire)...)
	}
}

// HookedTypes sets the types of deploy items for the plugin's hooks, of any deployer. Required for ServeHooks; those of
// several HookedTypes are added up. Without it a deployer's hooks run for its own types; with it only for these, so
// that its own types must be named as well, if they are wanted.
func HookedTypes(types ...v1alpha1.DeployItemType) Option {
	return func(p *plugin) {
		p.Info.HookedDeployItemTypes = append(p.Info.HookedDeployItemTypes, wire.Each(types, typeToWire)...)
	}
}

// ConfigSchema sets the JSON schema of the plugin's own configuration document. By default, it has none.
func ConfigSchema(schema []byte) Option {
	return func(p *plugin) { p.Info.ConfigurationSchema = schema }
}

// ProviderConfigSchema sets the JSON schema of the provider configuration of deploy items of the given type. By
// default, a type has none.
func ProviderConfigSchema(itemType v1alpha1.DeployItemType, schema []byte) Option {
	return func(p *plugin) { p.Info.ProviderConfigurationSchemas[string(itemType)] = schema }
}

// ContextCredentials has the host hand over Request.Credentials with each call. By default, a plugin does not get them.
func ContextCredentials() Option {
	return func(p *plugin) { p.Info.Capabilities.ContextCredentials = true }
}

// ContextOCMConfig has the host hand over Request.OCMConfig with each call. By default, a plugin does not get it.
func ContextOCMConfig() Option {
	return func(p *plugin) { p.Info.Capabilities.OcmConfig = true }
}

// HostClusterAccess has the host hand over Request.HostCluster with each call, if the operator has granted it. By
// default, a plugin does not get it.
func HostClusterAccess() Option {
	return func(p *plugin) { p.Info.Capabilities.HostCluster = true }
}

// LatePickUp promises that Reconcile and ForceReconcile change nothing, neither in a target nor anywhere else, before
// they have saved a provider status or called Request.PickUp. The host then saves the provider status and picks up the
// job in one write. By default, a job is picked up before the deployer is called.
func LatePickUp() Option {
	return func(p *plugin) { p.Info.Capabilities.LatePickUp = true }
}

// ScheduleInConfig promises that the hooks of type hook.ShouldReconcile have an opinion only about deploy items with
// the field continuousReconcile in their provider configuration, see package continuousreconcile. The host then asks
// them about no other item. By default, they are asked about each item once its job is done, and when a host starts.
func ScheduleInConfig() Option {
	return func(p *plugin) { p.Info.Capabilities.ScheduleInConfiguration = true }
}

// Timeout sets how long a job of a deploy item of this type may take without spec.timeout, from 1s to 168h. By default,
// it may take ten minutes.
func Timeout(itemType v1alpha1.DeployItemType, timeout time.Duration) Option {
	return func(p *plugin) { p.Info.Timeouts[string(itemType)] = durationpb.New(timeout) }
}

// MaxCalls bounds the concurrent calls of one process for deploy items; hooks and CheckHealth do not count. With 1 no
// call runs beside another. The host queues the others, and their time does not run meanwhile. By default, there are as
// many as the operator allows.
func MaxCalls(n int) Option {
	return func(p *plugin) { p.Info.MaxCalls = p.Calls("sdk.MaxCalls", n) }
}

// MaxCallsPerTarget is MaxCalls for the deploy items of one Target, such as an API with few concurrent requests.
func MaxCallsPerTarget(n int) Option {
	return func(p *plugin) { p.Info.MaxCallsPerTarget = p.Calls("sdk.MaxCallsPerTarget", n) }
}

func typeToWire(t v1alpha1.DeployItemType) string { return string(t) }

// deployerPlugin returns a plugin with a deployer. The error lists all problems of the options.
func deployerPlugin(deployer Deployer, opts []Option) (*plugin, error) {
	p := newPlugin(opts)
	p.deployer = deployer
	if h, ok := deployer.(Hooker); ok {
		p.AddHooks(h.Hooks())
	}
	c := p.Info.GetCapabilities()
	_, c.Abort = deployer.(Aborter)
	_, c.ForceReconcile = deployer.(ForceReconciler)
	_, c.Render = deployer.(Renderer)
	_, c.Validate = deployer.(Validator)
	_, c.Configure = deployer.(Configurer)
	_, c.Watch = deployer.(Watcher)
	c.WatchItems = c.GetWatch()
	_, c.Diff = deployer.(Differ)
	_, c.Collect = deployer.(Collector)
	_, c.CheckHealth = deployer.(HealthChecker)
	errs := p.CheckDeployer()
	if deployer == nil {
		errs = append(errs, errors.New("sdk.Serve: the deployer is nil; "+
			"a plugin of nothing but hooks calls sdk.ServeHooks"))
	}
	return p, errors.Join(errs...)
}

// hooksPlugin returns a plugin of nothing but hooks. The error lists all problems of the options.
func hooksPlugin(hooks hook.Hooks, opts []Option) (*plugin, error) {
	p := newPlugin(opts)
	p.AddHooks(hooks)
	return p, errors.Join(p.CheckHooks()...)
}

func newPlugin(opts []Option) *plugin {
	p := &plugin{Plugin: description.New(Release)}
	for _, opt := range opts {
		opt(p)
	}
	return p
}
