package hostside

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/description"
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
	// Limits of its calls.
	Limits Limits
}

// Limits bound the calls of a plugin. Zero stands for no bound.
type Limits struct {
	// Timeouts are the times of jobs without spec.timeout, by served type.
	Timeouts map[v1alpha1.DeployItemType]time.Duration
	// MaxCalls bounds the concurrent calls, MaxCallsPerTarget those for the items of one Target.
	MaxCalls, MaxCallsPerTarget int
}

// Lowest returns the lowest of bounds. Zero stands for no bound.
func Lowest[T int | time.Duration](bounds ...T) (lowest T) {
	for _, bound := range bounds {
		if bound > 0 && (lowest == 0 || bound < lowest) {
			lowest = bound
		}
	}
	return lowest
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
	// Metrics: it has metrics of its own.
	Metrics bool
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
		Metrics:            c.GetMetrics(),
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
	limits, limitsErr := readLimits(in)
	return Info{
		Name: in.GetName(), Version: in.GetVersion(), SDKVersion: in.GetSdkVersion(), Types: served, HookedTypes: hooked,
		Capabilities: capabilities, Limits: limits,
	}, errors.Join(append(errs, servedErr, hookTypesErr, hookedErr, limitsErr)...)
}

func readLimits(in *deployerv1.GetInfoResponse) (Limits, error) {
	limits := Limits{MaxCalls: readCount(in.GetMaxCalls()), MaxCallsPerTarget: readCount(in.GetMaxCallsPerTarget())}
	if len(in.GetTimeouts()) > 0 {
		limits.Timeouts = make(map[v1alpha1.DeployItemType]time.Duration, len(in.GetTimeouts()))
	}
	for t, timeout := range in.GetTimeouts() {
		limits.Timeouts[v1alpha1.DeployItemType(t)] = timeout.AsDuration()
	}
	served := in.GetDeployItemTypes()
	if err := description.CheckTimeouts(in.GetTimeouts(), served[:min(len(served), maxTypes)]); err != nil {
		return Limits{}, fmt.Errorf("its timeouts: %w", err)
	}
	return limits, nil
}

func readCount(n uint32) int { return int(min(n, math.MaxInt32)) }

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
