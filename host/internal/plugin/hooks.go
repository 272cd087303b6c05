package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

const (
	// maxOutcomes bounds the functions that a plugin has for one type of hook.
	maxOutcomes = 100
	// maxRequeueAfter bounds the time after which a hook asks for another reconcile. Asking it again earlier does no harm.
	maxRequeueAfter = 365 * 24 * time.Hour
)

// HookOutcome is what one hook function of a plugin has returned. Without a Result and an Error it has no opinion.
type HookOutcome struct {
	// Result as the function has returned it, but for a RequeueAfter that is never negative nor longer than a year.
	Result *hook.Result
	Error  *Error
}

// RunHooks runs the plugin's hook functions of a type and returns what each has returned, in the order of their
// registration. item and target are nil where the type says so. Of the target everything is sent but spec.config. It
// blocks until the plugin has answered or ctx, which needs a deadline, has ended; a type that the plugin has no
// functions for costs no call. The error is ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (p *Plugin) RunHooks(ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem,
	target *v1alpha1.Target) ([]HookOutcome, error) {
	p.mu.Lock()
	proc, info := p.process, p.info
	p.mu.Unlock()
	if info != nil && !slices.Contains(info.Capabilities.HookTypes, string(hookType)) {
		return nil, nil
	}
	if proc == nil {
		return nil, ErrNotRunning
	}
	return proc.runHooks(ctx, hookType, item, target)
}

func (p *process) runHooks(ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem,
	target *v1alpha1.Target) ([]HookOutcome, error) {
	in, err := hooksRequest(hookType, item, target)
	if err != nil {
		return nil, err
	}
	out, err := ask(ctx, p, func(ctx context.Context) (*deployerv1.RunHooksResponse, error) {
		return p.client.RunHooks(ctx, in, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	})
	if err != nil {
		return nil, err
	}
	return hookOutcomesFromWire(out.GetOutcomes())
}

func hooksRequest(hookType hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) (*deployerv1.RunHooksRequest,
	error) {
	in := &deployerv1.RunHooksRequest{HookType: string(hookType)}
	var err error
	if item != nil {
		if in.DeployItem, err = json.Marshal(item); err != nil {
			return nil, fmt.Errorf("marshal deploy item: %w", err)
		}
	}
	if target != nil {
		bare := *target
		bare.Spec.Configuration = nil
		if in.Target, err = json.Marshal(&bare); err != nil {
			return nil, fmt.Errorf("marshal target: %w", err)
		}
	}
	return in, nil
}

func hookOutcomesFromWire(in []*deployerv1.HookOutcome) ([]HookOutcome, error) {
	if len(in) > maxOutcomes {
		return nil, fmt.Errorf("%w: it answers with %d outcomes of one type of hook, and may have %d", ErrProtocol, len(in),
			maxOutcomes)
	}
	out := make([]HookOutcome, 0, len(in))
	for i, o := range in {
		switch outcome := o.GetOutcome().(type) {
		case *deployerv1.HookOutcome_None:
			out = append(out, HookOutcome{})
		case *deployerv1.HookOutcome_Result:
			out = append(out, HookOutcome{Result: hookResultFromWire(outcome.Result)})
		case *deployerv1.HookOutcome_Error:
			out = append(out, HookOutcome{Error: &errorsFromWire([]*deployerv1.Error{outcome.Error})[0]})
		default:
			return nil, fmt.Errorf("%w: outcome %d of its hooks is neither none, result nor error", ErrProtocol, i)
		}
	}
	return out, nil
}

func hookResultFromWire(in *deployerv1.HookResult) *hook.Result {
	return &hook.Result{
		Requeue:        in.GetRequeue(),
		RequeueAfter:   min(max(in.GetRequeueAfter().AsDuration(), 0), maxRequeueAfter),
		AbortReconcile: in.GetAbortReconcile(),
	}
}

// Hooking returns the plugins whose hooks run for deploy items of a type, whether they run at the moment or not, in the
// order of their names. As For does it returns none before the claims of plugins are settled.
func (s *Set) Hooking(itemType v1alpha1.DeployItemType) []*Plugin {
	var hooking []*Plugin
	for _, p := range s.Admitted() {
		if slices.Contains(p.Info().HookedTypes, itemType) {
			hooking = append(hooking, p)
		}
	}
	slices.SortFunc(hooking, func(a, b *Plugin) int { return cmp.Compare(a.Name(), b.Name()) })
	return hooking
}
