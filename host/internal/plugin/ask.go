package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Rendered are the desired objects of a deploy item. Exactly one of Children and Errors counts: the Errors, if there
// are any.
type Rendered struct {
	// Children have a name each, which no other one has, and are JSON objects with apiVersion and kind.
	Children []sdk.Child
	Errors   []Error
}

// Render asks for the desired objects without applying them. It blocks until the plugin has answered, ctx has ended, or
// the deadline of the call has passed. The error is as with Call.
func (p *Plugin) Render(ctx context.Context, c Call) (*Rendered, error) {
	out, err := ask(ctx, p, c.Deadline, func(ctx context.Context, proc *process) (*deployerv1.RenderResponse, error) {
		start, err := proc.startOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return proc.client.Render(ctx, &deployerv1.RenderRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.RenderResponse_Failed:
		return &Rendered{Errors: hostside.ReadErrors(outcome.Failed)}, nil
	case *deployerv1.RenderResponse_Children:
		children, err := hostside.ReadChildren(outcome.Children.GetChildren())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Rendered{Children: children}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Render says neither children nor failed", ErrProtocol)
	}
}

// Diff is what a job would change. Exactly one of Changes and Errors counts: the Errors, if there are any.
type Diff struct {
	// Changes name an object each, and are in the order in which the job would make them. Their actions are those of the
	// sdk, and their states are JSON objects or absent.
	Changes []sdk.Change
	Errors  []Error
}

// Diff asks what a job would change, without changing it. It needs Capabilities.Diff. It blocks until the plugin has
// answered, ctx has ended, or the deadline of the call has passed. The error is as with Call.
func (p *Plugin) Diff(ctx context.Context, c Call) (*Diff, error) {
	out, err := ask(ctx, p, c.Deadline, func(ctx context.Context, proc *process) (*deployerv1.DiffResponse, error) {
		start, err := proc.startOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return proc.client.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.DiffResponse_Failed:
		return &Diff{Errors: hostside.ReadErrors(outcome.Failed)}, nil
	case *deployerv1.DiffResponse_Changes:
		changes, err := hostside.ReadChanges(outcome.Changes.GetChanges())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Diff{Changes: changes}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Diff says neither changes nor failed", ErrProtocol)
	}
}

// Holdings asks what the plugin keeps outside of the targets of deploy items. It needs Capabilities.Collect. Names,
// namespaces and UIDs are some that deploy items can have; what else the plugin names is left out and logged. It blocks
// until the plugin has answered or ctx has ended. The error is an Error of the plugin or about the access to the host
// cluster, ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (p *Plugin) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	out, err := ask(ctx, p, time.Time{}, func(ctx context.Context, proc *process) (*deployerv1.HoldingsResponse, error) {
		cluster, err := proc.access(ctx)
		if err != nil {
			return nil, err
		}
		return proc.client.Holdings(ctx, &deployerv1.HoldingsRequest{HostCluster: hostside.HostCluster(cluster)})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.HoldingsResponse_Failed:
		return nil, failure(outcome.Failed)
	case *deployerv1.HoldingsResponse_Held:
		holdings, strange := hostside.ReadHoldings(outcome.Held.GetHoldings())
		if strange > 0 {
			p.log.Warn("the plugin keeps something for what can be no deploy item; that stays where it is", "count", strange)
		}
		return holdings, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Holdings says neither held nor failed", ErrProtocol)
	}
}

// Collect has the plugin remove what it keeps for holdings that nobody needs any more. What is said of Holdings goes
// for it, too.
func (p *Plugin) Collect(ctx context.Context, holdings []sdk.Holding) error {
	out, err := ask(ctx, p, time.Time{}, func(ctx context.Context, proc *process) (*deployerv1.CollectResponse, error) {
		cluster, err := proc.access(ctx)
		if err != nil {
			return nil, err
		}
		return proc.client.Collect(ctx, hostside.CollectRequest(cluster, holdings))
	})
	if err != nil {
		return err
	}
	if out.GetFailed() != nil {
		return failure(out.GetFailed())
	}
	return nil
}

// RunHooks runs the plugin's hook functions of a type and returns what each has returned, in the order of their
// registration. item and target are nil where the type says so. Of the target everything is sent but spec.config. It
// blocks until the plugin has answered or ctx, which needs a deadline, has ended; a type that the plugin has no
// functions for costs no call. The error is ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (p *Plugin) RunHooks(ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem,
	target *v1alpha1.Target) ([]HookOutcome, error) {
	if info := p.Info(); info.Name != "" && !slices.Contains(info.Capabilities.HookTypes, string(hookType)) {
		return nil, nil
	}
	in, err := hostside.HooksRequest(hookType, item, target)
	if err != nil {
		return nil, err
	}
	out, err := ask(ctx, p, time.Time{}, func(ctx context.Context, proc *process) (*deployerv1.RunHooksResponse, error) {
		return proc.client.RunHooks(ctx, in, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	})
	if err != nil {
		return nil, err
	}
	outcomes, err := hostside.ReadHookOutcomes(out.GetOutcomes())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return outcomes, nil
}

// failure is the error of a plugin that has failed.
func failure(in *deployerv1.Failed) error {
	var errs []error
	for _, e := range hostside.ReadErrors(in) {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
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
