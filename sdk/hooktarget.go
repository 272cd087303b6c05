package sdk

import (
	"context"
	"errors"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
)

// HookTargets has the host hand over the Targets of items with their content, hence credentials, to the hooks of the
// plugin; HookTarget returns it. That goes for all HookedTypes, so also for the items of other deployers. By default,
// hooks get no credentials.
func HookTargets() Option {
	return func(p *plugin) { p.Info.Capabilities.HookTargets = true }
}

// hookTargetKey is the key of a *hookTarget in the context of a hook function.
type hookTargetKey struct{}

// hookTarget is the answer of HookTarget.
type hookTarget struct {
	target *Target
	err    error
}

// HookTarget returns the Target of the item with its content, to a hook function of a plugin with HookTargets. ctx is
// that of the function. The Target is for this call: its credentials must not be kept. It is nil for an item without a
// Target, and in hooks of the types Start and DuringResponsibilityCheck.
//
// The error can be returned as it is. A problem of the Target is an *Error with its name and the codes for it; with a
// host that is too old it has ReasonHostTooOld.
func HookTarget(ctx context.Context) (*Target, error) {
	found, ok := ctx.Value(hookTargetKey{}).(*hookTarget)
	if !ok {
		return nil, internalProblem(errors.New(
			"sdk.HookTarget: only hook functions of a plugin with the option sdk.HookTargets have a Target with its content"))
	}
	return found.target, found.err
}

// withHookTarget adds the answer of HookTarget to the context of a call.
func (p *plugin) withHookTarget(
	ctx context.Context, in *deployerv1.RunHooksRequest, item *v1alpha1.DeployItem,
) context.Context {
	if !p.Info.GetCapabilities().GetHookTargets() {
		return ctx
	}
	const operation = "ResolveTarget"
	found := &hookTarget{}
	switch before := hook.Type(in.GetHookType()) == hook.DuringResponsibilityCheck; {
	case item == nil || item.Spec.Target == nil || before:
	case in.GetTargetProblem() != nil:
		found.err = errorFromWire(operation, "the Target of the deploy item cannot be used; the host does not say why",
			in.GetTargetProblem())
	case len(in.GetResolvedTarget()) == 0:
		found.err = hostTooOld(operation, "resolve the Target of the deploy item for a hook")
	default:
		resolved, err := message.ReadTarget(in.GetResolvedTarget())
		found.target, found.err = resolvedTarget(resolved), internalProblem(err)
	}
	return context.WithValue(ctx, hookTargetKey{}, found)
}
