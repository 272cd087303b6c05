package conformance

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// unknownHook is a type of hook that there is not.
const unknownHook = "ConformanceUnknownHook"

func (e *examination) checkHooksAnswer(ctx context.Context) {
	e.pass(RuleHooksAnswer)
	listed := e.info.GetCapabilities().GetHookTypes()
	for _, hookType := range listed {
		out, err := e.runHooks(ctx, hookType)
		if err != nil {
			e.breaks(RuleHooksAnswer, "hook type %s is listed, but RunHooks answers: %v", quoted(hookType), err)
			continue
		}
		if len(out.GetOutcomes()) == 0 {
			e.breaks(RuleHooksAnswer, "hook type %s is listed, but RunHooks has no outcome", quoted(hookType))
		}
		for i, outcome := range out.GetOutcomes() {
			e.checkOutcome(hookType, i, outcome)
		}
	}
	for _, hookType := range append(hook.Types(), unknownHook) {
		if !slices.Contains(listed, string(hookType)) {
			e.checkNoHooks(ctx, string(hookType), len(listed) > 0)
		}
	}
}

func (e *examination) checkOutcome(hookType string, i int, outcome *deployerv1.HookOutcome) {
	e.pass(RuleHookOutcomes)
	switch o := outcome.GetOutcome().(type) {
	case *deployerv1.HookOutcome_None:
	case *deployerv1.HookOutcome_Result:
		if after := o.Result.GetRequeueAfter().AsDuration(); after < 0 {
			e.breaks(RuleHookOutcomes, "outcome %d of hook type %s asks for a requeue after %s", i, quoted(hookType), after)
		}
	case *deployerv1.HookOutcome_Error:
		if o.Error.GetReason() == "" || o.Error.GetMessage() == "" {
			e.breaks(RuleHookOutcomes, "outcome %d of hook type %s is an error with reason %s and message %s; it needs both",
				i, quoted(hookType), quoted(o.Error.GetReason()), quoted(o.Error.GetMessage()))
		}
	default:
		e.breaks(RuleHookOutcomes, "outcome %d of hook type %s is empty", i, quoted(hookType))
	}
}

// checkNoHooks checks a type for which there is no function. A plugin without any hook need not have RunHooks.
func (e *examination) checkNoHooks(ctx context.Context, hookType string, implemented bool) {
	out, err := e.runHooks(ctx, hookType)
	if err != nil && (implemented || status.Code(err) != codes.Unimplemented) {
		e.breaks(RuleHooksAnswer, "hook type %q is not listed; expected no outcome, but RunHooks answers: %v", hookType, err)
	}
	if len(out.GetOutcomes()) > 0 {
		e.breaks(RuleHooksAnswer, "hook type %q is not listed, but RunHooks has %d outcomes", hookType, len(out.GetOutcomes()))
	}
}

func (e *examination) runHooks(ctx context.Context, hookType string) (out *deployerv1.RunHooksResponse, err error) {
	in := &deployerv1.RunHooksRequest{HookType: hookType}
	if hook.Type(hookType) != hook.Start {
		probe := e.newProbe(e.hookedType(), "hook")
		start, err := probe.start()
		if err != nil {
			return nil, err
		}
		in.DeployItem = start.GetDeployItem()
	}
	err = e.bounded(ctx, func(ctx context.Context) error {
		out, err = e.plugin.service.RunHooks(ctx, in)
		return err
	})
	return out, err
}

// hookedType is one of those that hooks run for.
func (e *examination) hookedType() v1alpha1.DeployItemType {
	if types := e.info.GetHookedDeployItemTypes(); len(types) > 0 {
		return v1alpha1.DeployItemType(types[0])
	}
	return e.firstType()
}
