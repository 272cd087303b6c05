package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Info is what a plugin says about itself.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, free text.
	Version string
	// SDKVersion is the version of the sdk that it was built with; empty if it was built without.
	SDKVersion string
	// Types of deploy items that it claims, at least one, each once and sorted.
	Types []v1alpha1.DeployItemType
	// Capabilities beyond Reconcile and Delete.
	Capabilities Capabilities
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Validate, Configure, Watch bool
	// SeparateDocuments: it takes provider configuration and provider status beside the deploy item.
	SeparateDocuments bool
	// HookTypes for which it has at least one function.
	HookTypes []string
}

const (
	// maxText bounds the names that a plugin gives to things: they end up in logs, metrics and statuses.
	maxText = 253
	// maxTypes bounds how many deploy item types one plugin claims.
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
	if len(in.GetDeployItemTypes()) == 0 {
		errs = append(errs, errors.New("it serves no deploy item type"))
	}
	if len(in.GetDeployItemTypes()) > maxTypes {
		return Info{}, errors.Join(append(errs, fmt.Errorf("it serves more than %d deploy item types", maxTypes))...)
	}
	info := Info{Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion()}
	for _, t := range in.GetDeployItemTypes() {
		if t == "" || len(t) > maxText {
			errs = append(errs, fmt.Errorf("the deploy item type %.*q is empty or longer than %d bytes", maxText, t, maxText))
		}
		if itemType := v1alpha1.DeployItemType(t); !slices.Contains(info.Types, itemType) {
			info.Types = append(info.Types, itemType)
		}
	}
	slices.Sort(info.Types) // a plugin that lists them in another order is the same plugin
	c := in.GetCapabilities()
	tooLong := func(hookType string) bool { return len(hookType) > maxText }
	if len(c.GetHookTypes()) > maxTypes || slices.ContainsFunc(c.GetHookTypes(), tooLong) {
		return Info{}, errors.Join(append(errs, fmt.Errorf("it has more than %d types of hooks, or one that is longer than %d bytes", maxTypes, maxText))...)
	}
	info.Capabilities = Capabilities{
		Abort: c.GetAbort(), ForceReconcile: c.GetForceReconcile(), Render: c.GetRender(),
		Validate: c.GetValidate(), Configure: c.GetConfigure(), Watch: c.GetWatch(),
		HookTypes: c.GetHookTypes(), SeparateDocuments: c.GetSeparateDocuments(),
	}
	return info, errors.Join(errs...)
}
