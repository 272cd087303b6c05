package sdk

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Release is the version of the sdk. The host shows it beside the plugin's own.
const Release = "0.1.0"

// Option configures Serve and ServeHooks.
type Option func(*plugin)

// plugin is a deployer or hooks, with their options.
type plugin struct {
	deployer Deployer // nil for a plugin of nothing but hooks
	hooks    hook.Hooks

	name               string
	version            string
	types              []v1alpha1.DeployItemType
	hookedTypes        []v1alpha1.DeployItemType
	configSchema       []byte
	providerSchemas    map[string][]byte
	contextCredentials bool
	contextOCMConfig   bool
	hostCluster        bool
	latePickUp         bool
	scheduleInConfig   bool
	hookTargets        bool
	limits             limits
	metrics            func() ([]byte, error) // nil for none
}

// Name sets the name of the plugin, a DNS label such as "helm". It prefixes the names of the plugin's locks and must
// stay the same over versions. Required.
func Name(name string) Option {
	return func(p *plugin) { p.name = name }
}

// Version sets the version of the plugin, free text, semantic version preferred. Defaults to "unknown".
func Version(version string) Option {
	return func(p *plugin) { p.version = version }
}

// Types sets the types of the deployer's deploy items. Required for Serve; those of several Types are added up.
func Types(types ...v1alpha1.DeployItemType) Option {
	return func(p *plugin) { p.types = append(p.types, types...) }
}

// HookedTypes sets the types of deploy items for the plugin's hooks, of any deployer. Required for ServeHooks; those of
// several HookedTypes are added up. Without it a deployer's hooks run for its own types; with it only for these, so
// that its own types must be named as well, if they are wanted.
func HookedTypes(types ...v1alpha1.DeployItemType) Option {
	return func(p *plugin) { p.hookedTypes = append(p.hookedTypes, types...) }
}

// ConfigSchema sets the JSON schema of the plugin's own configuration document. By default, it has none.
func ConfigSchema(schema []byte) Option {
	return func(p *plugin) { p.configSchema = schema }
}

// ProviderConfigSchema sets the JSON schema of the provider configuration of deploy items of the given type. By
// default, a type has none.
func ProviderConfigSchema(itemType v1alpha1.DeployItemType, schema []byte) Option {
	return func(p *plugin) { p.providerSchemas[string(itemType)] = schema }
}

// ContextCredentials has the host hand over Request.Credentials with each call. By default, a plugin does not get them.
func ContextCredentials() Option {
	return func(p *plugin) { p.contextCredentials = true }
}

// ContextOCMConfig has the host hand over Request.OCMConfig with each call. By default, a plugin does not get it.
func ContextOCMConfig() Option {
	return func(p *plugin) { p.contextOCMConfig = true }
}

// HostClusterAccess has the host hand over Request.HostCluster with each call, if the operator has granted it. By
// default, a plugin does not get it.
func HostClusterAccess() Option {
	return func(p *plugin) { p.hostCluster = true }
}

// LatePickUp promises that Reconcile and ForceReconcile change nothing, neither in a target nor anywhere else, before
// they have saved a provider status or called Request.PickUp. The host then saves the provider status and picks up the
// job in one write. By default, a job is picked up before the deployer is called.
func LatePickUp() Option {
	return func(p *plugin) { p.latePickUp = true }
}

// ScheduleInConfig promises that the hooks of type hook.ShouldReconcile have an opinion only about deploy items with
// the field continuousReconcile in their provider configuration, see package continuousreconcile. The host then asks
// them about no other item. By default, they are asked about each item once its job is done, and when a host starts.
func ScheduleInConfig() Option {
	return func(p *plugin) { p.scheduleInConfig = true }
}

// deployerPlugin returns a plugin with a deployer. The error lists all problems of the options.
func deployerPlugin(deployer Deployer, opts []Option) (*plugin, error) {
	p := newPlugin(opts)
	p.deployer = deployer
	if h, ok := deployer.(Hooker); ok {
		p.hooks = h.Hooks()
	}
	errs := p.check()
	if deployer == nil {
		errs = append(errs, errors.New("sdk.Serve: the deployer is nil; "+
			"a plugin of nothing but hooks calls sdk.ServeHooks"))
	}
	if len(p.types) == 0 {
		errs = append(errs, errors.New("sdk.Types: name at least one deploy item type"))
	}
	if len(p.hookedTypes) > 0 && !p.hasHooks() {
		errs = append(errs, errors.New("sdk.HookedTypes: the deployer has no hooks that would run for them; "+
			"implement sdk.Hooker, or leave them out"))
	}
	return p, errors.Join(append(errs, p.limits.check(p.types)...)...)
}

// hooksPlugin returns a plugin of nothing but hooks. The error lists all problems of the options.
func hooksPlugin(hooks hook.Hooks, opts []Option) (*plugin, error) {
	p := newPlugin(opts)
	p.hooks = hooks
	errs := p.check()
	if len(p.types) > 0 {
		errs = append(errs, errors.New("sdk.Types: a plugin of nothing but hooks serves none; "+
			"name the types for the hooks with sdk.HookedTypes"))
	}
	if len(p.hookedTypes) == 0 {
		errs = append(errs, errors.New("sdk.HookedTypes: name at least one deploy item type that the hooks run for"))
	}
	if !p.hasHooks() {
		errs = append(errs, errors.New("sdk.ServeHooks: register at least one function"))
	}
	if p.contextCredentials {
		errs = append(errs, errors.New("sdk.ContextCredentials: hooks get no credentials; leave it out"))
	}
	if p.contextOCMConfig {
		errs = append(errs, errors.New("sdk.ContextOCMConfig: hooks do not get it; leave it out"))
	}
	if p.hostCluster {
		errs = append(errs, errors.New("sdk.HostClusterAccess: hooks get no access to the host cluster; leave it out"))
	}
	if p.latePickUp {
		errs = append(errs, errors.New("sdk.LatePickUp: there is no deployer to keep the promise; leave it out"))
	}
	if p.limits.isSet() {
		errs = append(errs, errLimitsOfHooks)
	}
	return p, errors.Join(errs...)
}

func newPlugin(opts []Option) *plugin {
	p := &plugin{version: "unknown", providerSchemas: map[string][]byte{}}
	p.limits.timeouts = map[v1alpha1.DeployItemType]time.Duration{}
	for _, opt := range opts {
		opt(p)
	}
	return p
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// check returns the problems of a plugin of either kind.
func (p *plugin) check() []error {
	var errs []error
	if !namePattern.MatchString(p.name) {
		errs = append(errs, fmt.Errorf("sdk.Name: expected a DNS label such as \"my-deployer\", but found %q", p.name))
	}
	if p.scheduleInConfig && len(p.hooks[hook.ShouldReconcile]) == 0 {
		errs = append(errs, errors.New("sdk.ScheduleInConfig: there is no hook of type ShouldReconcile to keep the "+
			"promise; leave it out"))
	}
	if p.hookTargets && !p.hasHooks() {
		errs = append(errs, errors.New("sdk.HookTargets: there are no hooks that would use them; leave it out"))
	}
	if slices.Contains(p.types, "") {
		errs = append(errs, errors.New("sdk.Types: a deploy item type is empty"))
	}
	if slices.Contains(p.hookedTypes, "") {
		errs = append(errs, errors.New("sdk.HookedTypes: a deploy item type is empty"))
	}
	for _, t := range slices.Sorted(maps.Keys(p.hooks)) {
		if !slices.Contains(hook.Types(), t) {
			errs = append(errs, fmt.Errorf("hook.Hooks: a function is registered for %q, which is no type of hook; "+
				"expected one of %s", t, hook.Types()))
		}
		if slices.ContainsFunc(p.hooks[t], func(f hook.Func) bool { return f == nil }) {
			errs = append(errs, fmt.Errorf("hook.Hooks: a function registered for %s is nil", t))
		}
	}
	return errs
}

// hasHooks reports whether there is a function, also if its type of hook is unknown: that is a mistake of its own.
func (p *plugin) hasHooks() bool {
	for _, functions := range p.hooks {
		if len(functions) > 0 {
			return true
		}
	}
	return false
}

// hookTypes returns the types with at least one function.
func (p *plugin) hookTypes() []string {
	var types []string
	for _, t := range hook.Types() {
		if len(p.hooks[t]) > 0 {
			types = append(types, string(t))
		}
	}
	return types
}
