package plugin

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// Holdings asks what the plugin keeps outside of the targets of deploy items. It needs Capabilities.Collect. Names,
// namespaces and UIDs are some that deploy items can have; what else the plugin names is left out and logged. It blocks
// until the plugin has answered or ctx has ended. The error is an Error of the plugin or about the access to the host
// cluster, ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (p *Plugin) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	out, err := askCollector(ctx, p, func(
		ctx context.Context, client deployerv1.DeployerServiceClient, cluster *deployerv1.HostCluster,
	) (*deployerv1.HoldingsResponse, error) {
		return client.Holdings(ctx, &deployerv1.HoldingsRequest{HostCluster: cluster})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.HoldingsResponse_Failed:
		return nil, failure(outcome.Failed)
	case *deployerv1.HoldingsResponse_Held:
		return p.holdingsFromWire(outcome.Held.GetHoldings()), nil
	default:
		return nil, fmt.Errorf("%w: its answer to Holdings says neither held nor failed", ErrProtocol)
	}
}

// Collect has the plugin remove what it keeps for holdings that nobody needs any more. What is said of Holdings goes
// for it, too.
func (p *Plugin) Collect(ctx context.Context, holdings []sdk.Holding) error {
	out, err := askCollector(ctx, p, func(
		ctx context.Context, client deployerv1.DeployerServiceClient, cluster *deployerv1.HostCluster,
	) (*deployerv1.CollectResponse, error) {
		return client.Collect(ctx, &deployerv1.CollectRequest{Holdings: holdingsToWire(holdings), HostCluster: cluster})
	})
	if err != nil {
		return err
	}
	if out.GetFailed() != nil {
		return failure(out.GetFailed())
	}
	return nil
}

// askCollector asks a plugin something that is about no deploy item in particular.
func askCollector[Answer any](
	ctx context.Context, p *Plugin, question func(context.Context, deployerv1.DeployerServiceClient,
		*deployerv1.HostCluster) (*Answer, error),
) (*Answer, error) {
	proc, err := p.current()
	if err != nil {
		return nil, err
	}
	cluster, err := proc.access(ctx)
	if err != nil {
		return nil, err
	}
	return ask(ctx, proc, func(ctx context.Context) (*Answer, error) { return question(ctx, proc.client, cluster) })
}

// failure is the error of a plugin that has failed.
func failure(in *deployerv1.Failed) error {
	var errs []error
	for _, e := range errorsFromWire(in.GetErrors()) {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// holdingsFromWire leaves out what can be of no deploy item: whoever can make something with the marks of the plugin is
// not to keep it from clearing up.
func (p *Plugin) holdingsFromWire(in []*deployerv1.Holding) []sdk.Holding {
	holdings := make([]sdk.Holding, 0, len(in))
	strange := 0
	for _, h := range in {
		if !sound(h) {
			strange++
			continue
		}
		holdings = append(holdings, sdk.Holding{Namespace: h.GetNamespace(), Name: h.GetName(), UID: types.UID(h.GetUid()),
			JobID: h.GetJobId()})
	}
	if strange > 0 {
		p.log.Warn("the plugin keeps something for what can be no deploy item; that stays where it is", "count", strange)
	}
	return holdings
}

func sound(h *deployerv1.Holding) bool {
	return len(validation.IsDNS1123Label(h.GetNamespace())) == 0 && len(validation.IsDNS1123Subdomain(h.GetName())) == 0 &&
		h.GetUid() != "" && len(h.GetUid()) <= maxText && len(h.GetJobId()) <= maxText
}

func holdingsToWire(in []sdk.Holding) []*deployerv1.Holding {
	out := make([]*deployerv1.Holding, 0, len(in))
	for _, h := range in {
		out = append(out, &deployerv1.Holding{Namespace: h.Namespace, Name: h.Name, Uid: string(h.UID), JobId: h.JobID})
	}
	return out
}
