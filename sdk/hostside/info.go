package hostside

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Info describes a plugin in its own words.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, free text.
	Version string
	// SDKVersion of the plugin's sdk; empty for a plugin without the sdk.
	SDKVersion string
	// Types of deploy items that it claims, each once and sorted; none for a plugin of hooks.
	Types []v1alpha1.DeployItemType
	// HookedTypes of deploy items for its hooks, each once and sorted; none for a plugin without hooks.
	HookedTypes []v1alpha1.DeployItemType
	// Capabilities beyond Reconcile and Delete.
	Capabilities Capabilities
	// MaxCalls bounds its concurrent calls; zero for no bound. Configure returns it.
	MaxCalls int
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Validate, Configure, Watch, Diff bool
	// SeparateDocuments: it takes provider configuration and provider status beside the deploy item.
	SeparateDocuments bool
	// ContextCredentials: it gets the credentials of the item's Context.
	ContextCredentials bool
	// ContextOCMConfig: it gets the content of the Context's ocmConfig.
	ContextOCMConfig bool
	// HostCluster: it gets access to the cluster of the host, if the operator grants it.
	HostCluster bool
	// Collect: it lists and removes what it keeps outside of its items' targets.
	Collect bool
	// WatchItems: it takes answers to its questions about the items of its watch.
	WatchItems bool
	// HookTargets: its hooks get the Target of an item with its content.
	HookTargets bool
	// CheckHealth: it says whether what an item has deployed is still healthy.
	CheckHealth bool
	// LatePickUp: Reconcile and ForceReconcile change nothing before the job is picked up.
	LatePickUp bool
	// ScheduleInConfig: its ShouldReconcile hooks have an opinion only about items with the field continuousReconcile in
	// their provider configuration.
	ScheduleInConfig bool
	// HookTypes with at least one function, each once and in the order in which they are passed.
	HookTypes []string
}

// ReadCapabilities reads capabilities. The types of hooks are not checked.
func ReadCapabilities(c *deployerv1.Capabilities) Capabilities {
	return Capabilities{
		Abort:              c.GetAbort(),
		ForceReconcile:     c.GetForceReconcile(),
		Render:             c.GetRender(),
		Validate:           c.GetValidate(),
		Configure:          c.GetConfigure(),
		Watch:              c.GetWatch(),
		WatchItems:         c.GetWatchItems(),
		HookTargets:        c.GetHookTargets(),
		Diff:               c.GetDiff(),
		SeparateDocuments:  c.GetSeparateDocuments(),
		ContextCredentials: c.GetContextCredentials(),
		ContextOCMConfig:   c.GetOcmConfig(),
		HostCluster:        c.GetHostCluster(),
		Collect:            c.GetCollect(),
		CheckHealth:        c.GetCheckHealth(),
		LatePickUp:         c.GetLatePickUp(),
		ScheduleInConfig:   c.GetScheduleInConfiguration(),
		HookTypes:          c.GetHookTypes(),
	}
}

// maxTypes bounds the deploy item types of one plugin, and those of its hooks.
const maxTypes = 100

// ReadInfo reads and checks the description of a plugin. The error names everything that is wrong with it.
func ReadInfo(in *deployerv1.GetInfoResponse) (Info, error) {
	var errs []error
	if len(validation.IsDNS1123Label(in.GetName())) > 0 {
		errs = append(errs, fmt.Errorf("its name must be a DNS label, but is %.*q", MaxText, in.GetName()))
	}
	if len(in.GetVersion()) > MaxText || len(in.GetSdkVersion()) > MaxText {
		errs = append(errs, fmt.Errorf("its version is longer than %d bytes", MaxText))
	}
	capabilities := ReadCapabilities(in.GetCapabilities())
	hasHooks := len(capabilities.HookTypes) > 0
	if len(in.GetDeployItemTypes()) == 0 && (len(in.GetHookedDeployItemTypes()) == 0 || !hasHooks) {
		errs = append(errs, errors.New("it serves no deploy item type, and has no hooks that would run for others' items"))
	}
	served, servedErr := readTypes("serves", in.GetDeployItemTypes())
	hookTypes, hookTypesErr := readHookTypes(capabilities.HookTypes)
	hooked, hookedErr := readTypes("hooks", in.GetHookedDeployItemTypes())
	switch named := len(in.GetHookedDeployItemTypes()) > 0; {
	case hasHooks && !named:
		hooked = slices.Clone(served)
	case !hasHooks && named:
		hooked, hookedErr = nil, errors.New("it names deploy item types that its hooks run for, but has no hooks")
	}
	capabilities.HookTypes = hookTypes
	return Info{
		Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion(), Types: served, HookedTypes: hooked,
		Capabilities: capabilities,
	}, errors.Join(append(errs, servedErr, hookTypesErr, hookedErr)...)
}

// readTypes returns deploy item types, each once and sorted: their order does not matter.
func readTypes(does string, in []string) ([]v1alpha1.DeployItemType, error) {
	if len(in) > maxTypes {
		return nil, fmt.Errorf("it %s more than %d deploy item types", does, maxTypes)
	}
	var errs []error
	for _, t := range in {
		if t == "" || len(t) > MaxText {
			errs = append(errs, fmt.Errorf("the deploy item type %.*q that it %s is empty or longer than %d bytes", MaxText, t,
				does, MaxText))
		}
	}
	types := wire.Each(in, func(t string) v1alpha1.DeployItemType { return v1alpha1.DeployItemType(t) })
	slices.Sort(types)
	return slices.Compact(types), errors.Join(errs...)
}

// readHookTypes refuses an unknown type of hook, because its functions would never run, without a sign of it.
func readHookTypes(in []string) ([]string, error) {
	for _, t := range in {
		if !slices.Contains(hook.Types(), hook.Type(t)) {
			return nil, fmt.Errorf("it has hooks of the type %.*q, which this host does not know; expected some of %s", MaxText,
				t, hook.Types())
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
