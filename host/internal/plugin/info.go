package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Info is what a plugin says about itself.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, free text.
	Version string
	// SDKVersion is the version of the sdk that it was built with; empty if it was built without.
	SDKVersion string
	// Types of deploy items that it claims, each once and sorted; none for a plugin that brings nothing but hooks.
	Types []v1alpha1.DeployItemType
	// HookedTypes of deploy items that its hooks run for, each once and sorted; none for a plugin without hooks.
	HookedTypes []v1alpha1.DeployItemType
	// Capabilities beyond Reconcile and Delete.
	Capabilities Capabilities
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Validate, Configure, Watch, Diff bool
	// SeparateDocuments: it takes provider configuration and provider status beside the deploy item.
	SeparateDocuments bool
	// ContextCredentials: it gets the credentials that the Context of an item names.
	ContextCredentials bool
	// HostCluster: it gets the access to the cluster that the host runs in, if the operator grants it.
	HostCluster bool
	// Collect: it tells what it keeps outside of its items' targets, and removes what nobody needs any more.
	Collect bool
	// HookTypes for which it has at least one function, each once and in the order in which they are passed.
	HookTypes []string
}

const (
	// maxText bounds the names that a plugin gives to things: they end up in logs, metrics and statuses.
	maxText = 253
	// maxTypes bounds how many deploy item types one plugin claims, and how many its hooks run for.
	maxTypes = 100
)

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// infoFromWire checks what a plugin says about itself and returns everything that is wrong with it.
func infoFromWire(in *deployerv1.GetInfoResponse) (Info, error) {
	var errs []error
	if !namePattern.MatchString(in.GetName()) {
		errs = append(errs, fmt.Errorf("its name must be a DNS label, but is %.*q", maxText, in.GetName()))
	}
	if len(in.GetVersion()) > maxText || len(in.GetSdkVersion()) > maxText {
		errs = append(errs, fmt.Errorf("its version is longer than %d bytes", maxText))
	}
	c := in.GetCapabilities()
	if len(in.GetDeployItemTypes()) == 0 && (len(in.GetHookedDeployItemTypes()) == 0 || len(c.GetHookTypes()) == 0) {
		errs = append(errs, errors.New("it serves no deploy item type, and has no hooks that would run for others' items"))
	}
	types, err := typesFromWire("serves", in.GetDeployItemTypes())
	errs = append(errs, err)
	hookTypes, err := hookTypesFromWire(c.GetHookTypes())
	errs = append(errs, err)
	hooked, err := hookedTypesFromWire(in)
	errs = append(errs, err)
	return Info{
		Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion(), Types: types, HookedTypes: hooked,
		Capabilities: Capabilities{
			Abort: c.GetAbort(), ForceReconcile: c.GetForceReconcile(), Render: c.GetRender(),
			Validate: c.GetValidate(), Configure: c.GetConfigure(), Watch: c.GetWatch(), Diff: c.GetDiff(),
			HookTypes: hookTypes, SeparateDocuments: c.GetSeparateDocuments(), ContextCredentials: c.GetContextCredentials(),
			HostCluster: c.GetHostCluster(), Collect: c.GetCollect(),
		},
	}, errors.Join(errs...)
}

// typesFromWire returns deploy item types, each once and sorted: a plugin that lists them in another order is the same
// plugin.
func typesFromWire(does string, in []string) ([]v1alpha1.DeployItemType, error) {
	if len(in) > maxTypes {
		return nil, fmt.Errorf("it %s more than %d deploy item types", does, maxTypes)
	}
	var errs []error
	var types []v1alpha1.DeployItemType
	for _, t := range in {
		if t == "" || len(t) > maxText {
			errs = append(errs, fmt.Errorf("the deploy item type %.*q that it %s is empty or longer than %d bytes", maxText, t,
				does, maxText))
		}
		if itemType := v1alpha1.DeployItemType(t); !slices.Contains(types, itemType) {
			types = append(types, itemType)
		}
	}
	slices.Sort(types)
	return types, errors.Join(errs...)
}

// hookTypesFromWire refuses a type of hook that there is not: its functions would never run, and nobody would know.
func hookTypesFromWire(in []string) ([]string, error) {
	for _, name := range in {
		if !slices.Contains(hook.Types(), hook.Type(name)) {
			return nil, fmt.Errorf("it has hooks of the type %.*q, which this host does not know; expected some of %s", maxText,
				name, hook.Types())
		}
	}
	var types []string
	for _, t := range hook.Types() {
		if slices.Contains(in, string(t)) {
			types = append(types, string(t))
		}
	}
	return types, nil
}

// hookedTypesFromWire returns the types that the hooks of a plugin run for: those that it names, or else those that it
// serves.
func hookedTypesFromWire(in *deployerv1.GetInfoResponse) ([]v1alpha1.DeployItemType, error) {
	named := in.GetHookedDeployItemTypes()
	switch {
	case len(in.GetCapabilities().GetHookTypes()) > 0 && len(named) > 0:
		return typesFromWire("hooks", named)
	case len(in.GetCapabilities().GetHookTypes()) > 0:
		types, _ := typesFromWire("hooks", in.GetDeployItemTypes()) // what is wrong with them is told of those that it serves
		return types, nil
	case len(named) > 0:
		return nil, errors.New("it names deploy item types that its hooks run for, but has no hooks")
	default:
		return nil, nil
	}
}
