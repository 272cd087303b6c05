package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Reconcile calls the deployer's Reconcile once.
func (p *Plugin) Reconcile(ctx context.Context, call Call) (*Result, []Violation) {
	return p.operate(ctx, p.service.Reconcile, call)
}

// Delete calls the deployer's Delete once.
func (p *Plugin) Delete(ctx context.Context, call Call) (*Result, []Violation) {
	return p.operate(ctx, p.service.Delete, call)
}

// Abort calls the deployer's Abort. Without one the result has an Err.
func (p *Plugin) Abort(ctx context.Context, call Call) (*Result, []Violation) {
	return p.operate(ctx, p.service.Abort, call)
}

// ForceReconcile calls the deployer's ForceReconcile. Without one the result has an Err.
func (p *Plugin) ForceReconcile(ctx context.Context, call Call) (*Result, []Violation) {
	return p.operate(ctx, p.service.ForceReconcile, call)
}

// pollAtMost is how long UntilDone waits between two calls. A deployer may be called earlier than it asked for at any time,
// and a check need not wait as a host does.
const pollAtMost = 100 * time.Millisecond

// UntilDone repeats an operation while the job is in progress, each time with the provider status that was saved last, until
// it is not, or until ctx ends. It returns the last result.
func UntilDone(ctx context.Context, operation func(context.Context, Call) *Result, call Call) *Result {
	for {
		result := operation(ctx, call)
		if result.InProgress == nil {
			return result
		}
		pause := pollAtMost
		if after := result.InProgress.PollAfter; after > 0 {
			pause = min(after, pause)
		}
		select {
		case <-ctx.Done():
			return result
		case <-time.After(pause):
		}
		call = call.with(result.ProviderStatus)
	}
}

// operate carries out one call and returns the rules that it breaks.
func (p *Plugin) operate(ctx context.Context, open opener, call Call) (*Result, []Violation) {
	result, found := converse(ctx, open, &call, p.limits.silence)
	return result, found.broken
}

// Configure hands over the plugin's own configuration document, YAML or JSON, empty for defaults. A host does so once, before
// any operation. The problems are what is wrong with the document.
func (p *Plugin) Configure(ctx context.Context, document []byte) ([]sdk.Problem, error) {
	out, err := p.service.Configure(ctx, &deployerv1.ConfigureRequest{Document: document})
	if err != nil {
		return nil, fmt.Errorf("configure plugin: %w", err)
	}
	return problemsFromWire(out.GetProblems()), nil
}

// Validate checks a provider configuration, given as JSON. The problems are what is wrong with it.
func (p *Plugin) Validate(ctx context.Context, itemType v1alpha1.DeployItemType, config []byte) ([]sdk.Problem, error) {
	out, err := p.service.Validate(ctx, &deployerv1.ValidateRequest{DeployItemType: string(itemType), ProviderConfiguration: config})
	if err != nil {
		return nil, fmt.Errorf("validate provider configuration: %w", err)
	}
	return problemsFromWire(out.GetProblems()), nil
}

// Render returns the desired objects of a deploy item. When the deployer returned an error, the error is a *Failed.
func (p *Plugin) Render(ctx context.Context, call Call) ([]sdk.Child, error) {
	start, err := call.start()
	if err != nil {
		return nil, err
	}
	start.ResolvesTargets, start.ResolvesRegistryCredentials = false, false // there is no conversation in which anything could be asked for
	out, err := p.service.Render(ctx, &deployerv1.RenderRequest{Start: start})
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	if out.GetFailed() != nil {
		return nil, failedFromWire(out.GetFailed())
	}
	return childrenFromWire(out.GetChildren()), nil
}

// Diff returns what a job would change. When the deployer returned an error, the error is a *Failed.
func (p *Plugin) Diff(ctx context.Context, call Call) ([]sdk.Change, error) {
	start, err := call.start()
	if err != nil {
		return nil, err
	}
	start.ResolvesTargets, start.ResolvesRegistryCredentials = false, false // there is no conversation in which anything could be asked for
	out, err := p.service.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	if out.GetFailed() != nil {
		return nil, failedFromWire(out.GetFailed())
	}
	if out.GetChanges() == nil {
		return nil, errors.New("diff: the answer has no outcome")
	}
	return changesFromWire(out.GetChanges()), nil
}

// Holdings returns what the deployer keeps. cluster is the access to the host cluster; nil for none. When the deployer returned an error, the
// error is a *Failed.
func (p *Plugin) Holdings(ctx context.Context, cluster *sdk.HostCluster) ([]sdk.Holding, error) {
	out, err := p.service.Holdings(ctx, &deployerv1.HoldingsRequest{HostCluster: hostClusterToWire(cluster)})
	if err != nil {
		return nil, fmt.Errorf("holdings: %w", err)
	}
	if out.GetFailed() != nil {
		return nil, failedFromWire(out.GetFailed())
	}
	if out.GetHeld() == nil {
		return nil, errors.New("holdings: the answer has no outcome")
	}
	return holdingsFromWire(out.GetHeld().GetHoldings()), nil
}

// Collect tells the deployer what nobody needs any more. What is said of Holdings goes for it, too.
func (p *Plugin) Collect(ctx context.Context, cluster *sdk.HostCluster, holdings []sdk.Holding) error {
	out, err := p.service.Collect(ctx, &deployerv1.CollectRequest{HostCluster: hostClusterToWire(cluster), Holdings: holdingsToWire(holdings)})
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	if out.GetFailed() != nil {
		return failedFromWire(out.GetFailed())
	}
	return nil
}

// HookOutcome is what one hook function returned. Both fields are nil if it had no opinion.
type HookOutcome struct {
	Result *hook.Result
	Err    *Error
}

// RunHooks runs the hook functions of one type, in order of their registration. item and target are nil where the type says
// so.
func (p *Plugin) RunHooks(ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) ([]HookOutcome, error) {
	in := &deployerv1.RunHooksRequest{HookType: string(hookType)}
	var err error
	if item != nil {
		if in.DeployItem, err = json.Marshal(item); err != nil {
			return nil, fmt.Errorf("marshal deploy item: %w", err)
		}
	}
	if target != nil {
		if in.Target, err = json.Marshal(target); err != nil {
			return nil, fmt.Errorf("marshal target: %w", err)
		}
	}
	out, err := p.service.RunHooks(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("run hooks: %w", err)
	}
	outcomes := make([]HookOutcome, 0, len(out.GetOutcomes()))
	for _, outcome := range out.GetOutcomes() {
		outcomes = append(outcomes, hookOutcomeFromWire(outcome))
	}
	return outcomes, nil
}

// Watch calls woken for each deploy item that may have moved on, one after the other, until ctx ends, which is no error, or
// the plugin ends the stream.
func (p *Plugin) Watch(ctx context.Context, woken func(namespace, name string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.service.Watch(ctx, &deployerv1.WatchRequest{})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for {
		wakeUp, err := stream.Recv()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		woken(wakeUp.GetNamespace(), wakeUp.GetName())
	}
}

func problemsFromWire(in []*deployerv1.Problem) []sdk.Problem {
	problems := make([]sdk.Problem, 0, len(in))
	for _, p := range in {
		problems = append(problems, sdk.Problem{Field: p.GetField(), Message: p.GetMessage()})
	}
	return problems
}

func hookOutcomeFromWire(in *deployerv1.HookOutcome) HookOutcome {
	switch outcome := in.GetOutcome().(type) {
	case *deployerv1.HookOutcome_Result:
		return HookOutcome{Result: &hook.Result{
			Requeue:        outcome.Result.GetRequeue(),
			RequeueAfter:   outcome.Result.GetRequeueAfter().AsDuration(),
			AbortReconcile: outcome.Result.GetAbortReconcile(),
		}}
	case *deployerv1.HookOutcome_Error:
		err := errorFromWire(outcome.Error)
		return HookOutcome{Err: &err}
	default:
		return HookOutcome{}
	}
}
