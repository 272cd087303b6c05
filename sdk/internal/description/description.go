// Package description has the description of a plugin by itself: its checks, and the message.
package description

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Plugin describes a plugin by the options of its author.
type Plugin struct {
	Info  *deployerv1.GetInfoResponse
	Hooks hook.Hooks

	wrong []error // options that are wrong by themselves
}

// New returns the description of a plugin without options.
func New(sdkVersion string) Plugin {
	return Plugin{Info: &deployerv1.GetInfoResponse{
		Version: "unknown", SdkVersion: sdkVersion,
		Capabilities:                 &deployerv1.Capabilities{SeparateDocuments: true},
		ProviderConfigurationSchemas: map[string][]byte{},
		Timeouts:                     map[string]*durationpb.Duration{},
	}}
}

// Calls returns a bound of calls for the message.
func (p *Plugin) Calls(option string, n int) uint32 {
	if n < 1 || n > math.MaxInt32 {
		p.wrong = append(p.wrong, fmt.Errorf("%s: expected a number from 1 on, but found %d", option, n))
		return 0
	}
	return uint32(n)
}

// AddHooks adds the functions of a plugin.
func (p *Plugin) AddHooks(hooks hook.Hooks) {
	p.Hooks = hooks
	for _, t := range hook.Types() {
		if len(hooks[t]) > 0 {
			p.Info.Capabilities.HookTypes = append(p.Info.Capabilities.HookTypes, string(t))
		}
	}
}

// CheckDeployer returns all problems of a plugin with a deployer.
func (p *Plugin) CheckDeployer() []error {
	errs := p.check([]mistake{
		{len(p.Info.GetDeployItemTypes()) == 0, "sdk.Types: name at least one deploy item type"},
		{len(p.Info.GetHookedDeployItemTypes()) > 0 && !p.hasHooks(), "sdk.HookedTypes: the deployer has no hooks that " +
			"would run for them; implement sdk.Hooker, or leave them out"},
	})
	if err := CheckTimeouts(p.Info.GetTimeouts(), p.Info.GetDeployItemTypes()); err != nil {
		errs = append(errs, fmt.Errorf("sdk.Timeout: %w", err))
	}
	return append(errs, p.wrong...)
}

// CheckHooks returns all problems of a plugin of nothing but hooks.
func (p *Plugin) CheckHooks() []error {
	c := p.Info.GetCapabilities()
	isLimited := len(p.Info.GetTimeouts()) > 0 || p.Info.GetMaxCalls() > 0 || p.Info.GetMaxCallsPerTarget() > 0
	return append(p.check([]mistake{
		{len(p.Info.GetDeployItemTypes()) > 0, "sdk.Types: a plugin of nothing but hooks serves none; " +
			"name the types for the hooks with sdk.HookedTypes"},
		{len(p.Info.GetHookedDeployItemTypes()) == 0,
			"sdk.HookedTypes: name at least one deploy item type that the hooks run for"},
		{!p.hasHooks(), "sdk.ServeHooks: register at least one function"},
		{c.GetContextCredentials(), "sdk.ContextCredentials: hooks get no credentials; leave it out"},
		{c.GetOcmConfig(), "sdk.ContextOCMConfig: hooks do not get it; leave it out"},
		{c.GetHostCluster(), "sdk.HostClusterAccess: hooks get no access to the host cluster; leave it out"},
		{c.GetLatePickUp(), "sdk.LatePickUp: there is no deployer to keep the promise; leave it out"},
		{isLimited, "sdk.Timeout, sdk.MaxCalls, sdk.MaxCallsPerTarget: they do not bound hooks; leave them out"},
	}), p.wrong...)
}

// mistake is a possible problem of the options.
type mistake struct {
	made bool
	text string
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// check returns the problems of a plugin of either kind, and those of its own kind.
func (p *Plugin) check(ofKind []mistake) []error {
	var errs []error
	if name := p.Info.GetName(); !namePattern.MatchString(name) {
		errs = append(errs, fmt.Errorf("sdk.Name: expected a DNS label such as \"my-deployer\", but found %q", name))
	}
	for _, m := range append([]mistake{
		{p.Info.GetCapabilities().GetScheduleInConfiguration() && len(p.Hooks[hook.ShouldReconcile]) == 0,
			"sdk.ScheduleInConfig: there is no hook of type ShouldReconcile to keep the promise; leave it out"},
		{p.Info.GetCapabilities().GetHookTargets() && !p.hasHooks(),
			"sdk.HookTargets: there are no hooks that would use them; leave it out"},
		{slices.Contains(p.Info.GetDeployItemTypes(), ""), "sdk.Types: a deploy item type is empty"},
		{slices.Contains(p.Info.GetHookedDeployItemTypes(), ""), "sdk.HookedTypes: a deploy item type is empty"},
	}, ofKind...) {
		if m.made {
			errs = append(errs, errors.New(m.text))
		}
	}
	for _, t := range slices.Sorted(maps.Keys(p.Hooks)) {
		if !slices.Contains(hook.Types(), t) {
			errs = append(errs, fmt.Errorf("hook.Hooks: a function is registered for %q, which is no type of hook; "+
				"expected one of %s", t, hook.Types()))
		}
		if slices.ContainsFunc(p.Hooks[t], func(f hook.Func) bool { return f == nil }) {
			errs = append(errs, fmt.Errorf("hook.Hooks: a function registered for %s is nil", t))
		}
	}
	return errs
}

// hasHooks reports whether there is a function, also if its type of hook is unknown: that is a mistake of its own.
func (p *Plugin) hasHooks() bool {
	for _, functions := range p.Hooks {
		if len(functions) > 0 {
			return true
		}
	}
	return false
}
