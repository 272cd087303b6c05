package sdk

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Release is the version of the sdk. The host shows it beside the plugin's own.
const Release = "0.1.0"

// Option sets up what Serve and ServeHooks serve.
type Option func(*options)

type options struct {
	name               string
	version            string
	types              []v1alpha1.DeployItemType
	hookedTypes        []v1alpha1.DeployItemType
	configSchema       []byte
	providerSchemas    map[string][]byte
	contextCredentials bool
	hostCluster        bool
}

// Name sets the name of the plugin, a DNS label such as "helm". It prefixes the names of the plugin's locks and must stay the
// same over versions. Required.
func Name(name string) Option {
	return func(o *options) { o.name = name }
}

// Version sets the version of the plugin, free text, semantic version preferred. Defaults to "unknown".
func Version(version string) Option {
	return func(o *options) { o.version = version }
}

// Types sets the types of deploy items that the deployer serves. Required for Serve; a deployer that serves several adds them all.
func Types(types ...v1alpha1.DeployItemType) Option {
	return func(o *options) { o.types = append(o.types, types...) }
}

// HookedTypes sets the types of deploy items that the plugin's hooks run for, whichever deployer serves them. Required for ServeHooks;
// several are added up. Without it a deployer's hooks run for the types that it serves; with it only for those that are named here, so that
// its own are to be named as well, if they are wanted.
func HookedTypes(types ...v1alpha1.DeployItemType) Option {
	return func(o *options) { o.hookedTypes = append(o.hookedTypes, types...) }
}

// ConfigSchema sets the JSON schema of the plugin's own configuration document.
func ConfigSchema(schema []byte) Option {
	return func(o *options) { o.configSchema = schema }
}

// ProviderConfigSchema sets the JSON schema of the provider configuration of deploy items of the given type.
func ProviderConfigSchema(itemType v1alpha1.DeployItemType, schema []byte) Option {
	return func(o *options) { o.providerSchemas[string(itemType)] = schema }
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// plugin is what a program serves.
type plugin struct {
	*options

	deployer Deployer // nil for a plugin that brings nothing but hooks
	hooks    hook.Hooks
}

// deployerPlugin is a plugin with a deployer. The error is everything that is wrong with the options.
func deployerPlugin(deployer Deployer, opts []Option) (*plugin, error) {
	p := &plugin{options: newOptions(opts), deployer: deployer}
	if h, ok := deployer.(Hooker); ok {
		p.hooks = h.Hooks()
	}
	errs := p.check()
	if deployer == nil {
		errs = append(errs, errors.New("sdk.Serve: the deployer is nil; a plugin that brings nothing but hooks calls sdk.ServeHooks"))
	}
	if len(p.types) == 0 {
		errs = append(errs, errors.New("sdk.Types: name at least one deploy item type"))
	}
	if len(p.hookedTypes) > 0 && !p.hasHooks() {
		errs = append(errs, errors.New("sdk.HookedTypes: the deployer has no hooks that would run for them; implement sdk.Hooker, or leave them out"))
	}
	return p, errors.Join(errs...)
}

// hooksPlugin is a plugin that brings nothing but hooks. The error is everything that is wrong with the options.
func hooksPlugin(hooks hook.Hooks, opts []Option) (*plugin, error) {
	p := &plugin{options: newOptions(opts), hooks: hooks}
	errs := p.check()
	if len(p.types) > 0 {
		errs = append(errs, errors.New("sdk.Types: a plugin that brings nothing but hooks serves none; name those that the hooks run for with sdk.HookedTypes"))
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
	if p.hostCluster {
		errs = append(errs, errors.New("sdk.HostClusterAccess: hooks get no access to the host cluster; leave it out"))
	}
	return p, errors.Join(errs...)
}

func newOptions(opts []Option) *options {
	o := &options{version: "unknown", providerSchemas: map[string][]byte{}}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// check returns what is wrong with a plugin of either kind.
func (p *plugin) check() []error {
	var errs []error
	if !namePattern.MatchString(p.name) {
		errs = append(errs, fmt.Errorf("sdk.Name: expected a DNS label such as %q, but found %q", "my-deployer", p.name))
	}
	for _, t := range p.types {
		if t == "" {
			errs = append(errs, errors.New("sdk.Types: a deploy item type is empty"))
		}
	}
	for _, t := range p.hookedTypes {
		if t == "" {
			errs = append(errs, errors.New("sdk.HookedTypes: a deploy item type is empty"))
		}
	}
	for _, t := range slices.Sorted(maps.Keys(p.hooks)) {
		if !slices.Contains(hook.Types(), t) {
			errs = append(errs, fmt.Errorf("hook.Hooks: a function is registered for %q, which is no type of hook; expected one of %s", t, hook.Types()))
		}
		if slices.ContainsFunc(p.hooks[t], func(f hook.Func) bool { return f == nil }) {
			errs = append(errs, fmt.Errorf("hook.Hooks: a function that is registered for %s is nil", t))
		}
	}
	return errs
}

// hasHooks tells whether there is a function, be it for a type that is none: that is a mistake of its own.
func (p *plugin) hasHooks() bool {
	for _, functions := range p.hooks {
		if len(functions) > 0 {
			return true
		}
	}
	return false
}

// hookTypes are those for which there is at least one function.
func (p *plugin) hookTypes() []string {
	var types []string
	for _, t := range hook.Types() {
		if len(p.hooks[t]) > 0 {
			types = append(types, string(t))
		}
	}
	return types
}
