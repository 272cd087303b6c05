package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Configure hands over the plugin's own configuration document, YAML or JSON, empty for defaults. A host does so once,
// before any operation.
func (p *Plugin) Configure(ctx context.Context, document []byte) ([]sdk.Problem, error) {
	out, err := p.service.Configure(ctx, &deployerv1.ConfigureRequest{Document: document})
	if err != nil {
		return nil, fmt.Errorf("configure plugin: %w", err)
	}
	return wire.Each(out.GetProblems(), hostside.ReadProblem), nil
}

// Validate checks the provider configuration of a call. Of the call the plugin gets the deploy item, its Context, the
// job and Forced.
func (p *Plugin) Validate(ctx context.Context, call Call) ([]sdk.Problem, error) {
	if call.DeployItem == nil {
		return nil, errNoItem
	}
	p.meet(&call)
	in, err := hostside.ValidateRequest(&hostside.Call{
		DeployItem: call.DeployItem, JobID: call.job(), Forced: call.Forced,
		Context: cmp.Or(call.Context, &v1alpha1.Context{}),
	}, call.separate)
	if err != nil {
		return nil, fmt.Errorf("validate provider configuration: %w", err)
	}
	out, err := p.service.Validate(ctx, in)
	if err = failure("validate provider configuration", err, out.GetFailed()); len(out.GetProblems()) > 0 {
		err = nil // they are the answer, and the error repeats them
	}
	return wire.Each(out.GetProblems(), hostside.ReadProblem), err
}

// failure returns why a question has no answer: it failed, or the deployer returned an error.
func failure(method string, err error, failed *deployerv1.Failed) error {
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if failed != nil {
		return &Failed{Errors: hostside.ReadErrors(failed)}
	}
	return nil
}

// Render returns the desired objects of a deploy item. An error of the deployer is a *Failed.
func (p *Plugin) Render(ctx context.Context, call Call) ([]sdk.Child, error) {
	p.meet(&call)
	start, err := call.question()
	if err != nil {
		return nil, err
	}
	out, err := p.service.Render(ctx, &deployerv1.RenderRequest{Start: start})
	if err := failure("render", err, out.GetFailed()); err != nil {
		return nil, err
	}
	children, err := hostside.ReadChildren(out.GetChildren().GetChildren())
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return children, nil
}

// Diff returns the changes of a job. An error of the deployer is a *Failed.
func (p *Plugin) Diff(ctx context.Context, call Call) ([]sdk.Change, error) {
	p.meet(&call)
	start, err := call.question()
	if err != nil {
		return nil, err
	}
	out, err := p.service.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	if err := failure("diff", err, out.GetFailed()); err != nil {
		return nil, err
	}
	if out.GetChanges() == nil {
		return nil, errors.New("diff: the answer has no outcome")
	}
	changes, err := hostside.ReadChanges(out.GetChanges().GetChanges())
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	return changes, nil
}

// Holdings returns what the deployer keeps. cluster is the access to the host cluster; nil for none. An error of the
// deployer is a *Failed.
func (p *Plugin) Holdings(ctx context.Context, cluster *sdk.HostCluster) ([]sdk.Holding, error) {
	in := &deployerv1.HoldingsRequest{HostCluster: hostside.HostCluster(cluster)}
	out, err := p.service.Holdings(ctx, in)
	if err := failure("holdings", err, out.GetFailed()); err != nil {
		return nil, err
	}
	if out.GetHeld() == nil {
		return nil, errors.New("holdings: the answer has no outcome")
	}
	holdings, strange := hostside.ReadHoldings(out.GetHeld().GetHoldings())
	if strange > 0 {
		return nil, fmt.Errorf("holdings: %d of them lack the namespace, the name or the UID of a deploy item", strange)
	}
	return holdings, nil
}

// Collect has the deployer remove what it keeps for these holdings. cluster and the error are as for Holdings.
func (p *Plugin) Collect(ctx context.Context, cluster *sdk.HostCluster, holdings []sdk.Holding) error {
	out, err := p.service.Collect(ctx, hostside.CollectRequest(cluster, holdings))
	return failure("collect", err, out.GetFailed())
}

// HookOutcome is the answer of one hook function. Both fields are nil if it has no opinion.
type HookOutcome struct {
	Result *hook.Result
	Err    *Error
}

// RunHooks runs the hook functions of one type, in the order of their registration. item and target are nil where the
// type says so. Of the target everything is sent but its configuration; a plugin with sdk.HookTargets gets that as the
// content.
func (p *Plugin) RunHooks(
	ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) ([]HookOutcome, error) {
	call := hostside.HookCall{Type: hookType, DeployItem: item, Target: target}
	if target != nil && target.Spec.Configuration != nil && p.info.GetCapabilities().GetHookTargets() {
		call.Resolved = &v1alpha1.ResolvedTarget{Target: target, Content: string(target.Spec.Configuration.Raw)}
	}
	in, err := call.Request()
	if err != nil {
		return nil, err
	}
	out, err := p.service.RunHooks(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("run hooks: %w", err)
	}
	outcomes, err := hostside.ReadHookOutcomes(out.GetOutcomes())
	if err != nil {
		return nil, fmt.Errorf("run hooks: %w", err)
	}
	return wire.Each(outcomes, func(outcome hostside.HookOutcome) HookOutcome {
		return HookOutcome{Result: outcome.Result, Err: outcome.Error}
	}), nil
}

// Watch calls woken for each deploy item with news, one after the other, until ctx ends, or the plugin ends the stream.
// The end of ctx is no error. It is the watch of an older host, without answers; see WatchItems.
func (p *Plugin) Watch(ctx context.Context, woken func(namespace, name string)) error {
	return exchange.WakeUps(ctx, p.service, woken)
}

// WatchItems is Watch with answers to the plugin: calls returns, at each question, the items of the watch, each with
// the input of a call for it.
func (p *Plugin) WatchItems(ctx context.Context, calls func() []Call, woken func(namespace, name string)) error {
	watched := func(c Call) exchange.Watched {
		start, err := c.question()
		return exchange.Watched{Item: c.DeployItem, Target: c.Target, Start: start, Err: err}
	}
	return exchange.WatchItems(ctx, p.service, func() []exchange.Watched { return wire.Each(calls(), watched) }, woken)
}
