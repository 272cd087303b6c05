package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/validation"

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
	// MaxCalls is how many calls it can work on at once; zero for as many as the host makes.
	MaxCalls int
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Validate, Configure, Watch, Diff bool
	// SeparateDocuments: it takes provider configuration and provider status beside the deploy item.
	SeparateDocuments bool
	// ContextCredentials: it gets the credentials that the Context of an item names.
	ContextCredentials bool
	// ContextOCMConfig: it gets the content of the ConfigMap that the Context's ocmConfig names.
	ContextOCMConfig bool
	// HostCluster: it gets the access to the cluster that the host runs in, if the operator grants it.
	HostCluster bool
	// Collect: it tells what it keeps outside of its items' targets, and removes what nobody needs any more.
	Collect bool
	// LatePickUp: it changes nothing in Reconcile and ForceReconcile before the job is picked up by what it saves.
	LatePickUp bool
	// ScheduleInConfig: its ShouldReconcile hooks have an opinion only about items whose provider configuration has the
	// field continuousReconcile.
	ScheduleInConfig bool
	// HookTypes for which it has at least one function, each once and in the order in which they are passed.
	HookTypes []string
}

const (
	// maxText bounds the names that a plugin gives to things: they end up in logs, metrics and statuses.
	maxText = 253
	// maxTypes bounds how many deploy item types one plugin claims, and how many its hooks run for.
	maxTypes = 100
)

// infoFromWire checks what a plugin says about itself and returns everything that is wrong with it.
func infoFromWire(in *deployerv1.GetInfoResponse) (Info, error) {
	var errs []error
	if len(validation.IsDNS1123Label(in.GetName())) > 0 {
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
			ContextOCMConfig: c.GetOcmConfig(), HostCluster: c.GetHostCluster(), Collect: c.GetCollect(),
			LatePickUp: c.GetLatePickUp(), ScheduleInConfig: c.GetScheduleInConfiguration(),
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
	named, has := in.GetHookedDeployItemTypes(), len(in.GetCapabilities().GetHookTypes()) > 0
	switch {
	case has && len(named) == 0:
		types, _ := typesFromWire("hooks", in.GetDeployItemTypes()) // what is wrong with them is told of those that it serves
		return types, nil
	case !has && len(named) > 0:
		return nil, errors.New("it names deploy item types that its hooks run for, but has no hooks")
	default:
		return typesFromWire("hooks", named)
	}
}

const (
	// askTimeout bounds the calls that a plugin must answer at once.
	askTimeout = 10 * time.Second
	// maxInfoBytes bounds what a plugin says about itself, which has schemas in it, and maxAnswerBytes what it says about
	// its configuration, and each of its wake-ups.
	maxInfoBytes   = 4 << 20
	maxAnswerBytes = 1 << 20
	// maxProblems bounds the problems with a configuration that are told.
	maxProblems = 16
)

// introduce asks the plugin who it is, configures it, and settles whether it may serve what it claims.
func (p *Plugin) introduce(ctx context.Context, proc *process) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := proc.client.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: p.settings.HostVersion},
		grpc.MaxCallRecvMsgSize(maxInfoBytes))
	if err != nil {
		return nil, fmt.Errorf("ask the plugin who it is: %s", bounded(err.Error()))
	}
	info, err := infoFromWire(answer)
	if err != nil {
		return nil, fmt.Errorf("is refused for what it says about itself: %w", err)
	}
	if err := p.recognize(&info); err != nil {
		return nil, refusal(err)
	}
	if err := p.configure(ctx, proc, &info); err != nil {
		return nil, err
	}
	if err := p.settings.claim(p, &info); err != nil {
		return nil, refusal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.build = p.buildOf(&info)
	return &info, nil
}

// buildOf is what Build returns of a plugin that says this about itself.
func (p *Plugin) buildOf(info *Info) string {
	digest := sha256.Sum256(slices.Concat([]byte(p.sum+"\x00"+info.Version+"\x00"), p.settings.Configs[info.Name]))
	return hex.EncodeToString(digest[:8])
}

// recognize tells what speaks against a plugin that says this about itself.
func (p *Plugin) recognize(info *Info) error {
	if before := p.Info(); before.Name != "" && (before.Name != info.Name || !slices.Equal(before.Types, info.Types)) {
		return fmt.Errorf("has become another plugin (%q for %q instead of %q for %q); restart the host to use it",
			info.Name, info.Types, before.Name, before.Types)
	}
	if p.program == nil {
		return nil
	}
	return checkProfile(p.settings.Profiles, p.file, info.Name)
}

// configure hands over the configuration document, in each life of the process.
func (p *Plugin) configure(ctx context.Context, proc *process, info *Info) error {
	document := p.settings.Configs[info.Name]
	if !info.Capabilities.Configure {
		if len(document) > 0 {
			return fmt.Errorf("is refused: there is configuration for it, but the plugin %q takes none; remove "+
				"plugins.%s.config from the host configuration",
				info.Name, info.Name)
		}
		return nil
	}
	configured, err := proc.client.Configure(ctx, &deployerv1.ConfigureRequest{Document: document},
		grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("configure the plugin: %s", bounded(err.Error()))
	}
	if err := problemsFromWire(configured.GetProblems()); err != nil {
		return fmt.Errorf("the plugin refuses its configuration: %w", err)
	}
	info.MaxCalls = int(configured.GetMaxCalls())
	return nil
}

// problemsFromWire returns the first problems of a configuration, and how many more there are; nil if there are none.
func problemsFromWire(in []*deployerv1.Problem) error {
	told := in[:min(len(in), maxProblems)]
	problems := make([]error, 0, len(told)+1)
	for _, problem := range told {
		problems = append(problems, fmt.Errorf("%s: %s", cut(problem.GetField(), maxText), bounded(problem.GetMessage())))
	}
	if more := len(in) - len(told); more > 0 {
		problems = append(problems, fmt.Errorf("and %d more", more))
	}
	return errors.Join(problems...)
}
