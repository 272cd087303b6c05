package job

import (
	"context"
	"errors"

	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// callPhase calls the item's HTTP hook and its plugin.
type callPhase struct {
	*work
	// called becomes known in this phase.
	called *called
}

// run calls the HTTP hook and then the plugin, unless the hook fails. The error is itemclient.ErrOutdated if the call
// was cancelled because the item has changed.
func (p callPhase) run(ctx context.Context, c plugin.Call) (*plugin.Outcome, error) {
	var outcome *plugin.Outcome
	err := p.watched(ctx, func(ctx context.Context, o *observer) error {
		var err error
		if p.operation() == plugin.Delete && p.decision.Deletion {
			outcome, err = p.delete(ctx, c, o)
		} else {
			outcome, err = p.deployOrAbort(ctx, c, o)
		}
		return err
	})
	if errors.Is(err, itemclient.ErrOutdated) {
		p.keepProviderStatus(ctx, outcome)
		return nil, err
	}
	p.called.answered = err == nil
	return outcome, err
}

// delete calls the HTTP hook, and the plugin once the hook has agreed.
func (p callPhase) delete(ctx context.Context, c plugin.Call, o *observer) (*plugin.Outcome, error) {
	before := p.tenure.View().Generation
	if err := p.finalize(ctx, c.Deadline); err != nil {
		return nil, err
	}
	return p.callPlugin(ctx, before, c, o)
}

// deployOrAbort calls the HTTP hook for a deployment of a valid configuration, and the plugin with the objects of its
// answer.
func (p callPhase) deployOrAbort(ctx context.Context, c plugin.Call, o *observer) (*plugin.Outcome, error) {
	before := p.tenure.View().Generation
	if p.deploys() {
		if failed, err := p.validate(ctx, c); err != nil || failed != nil {
			return failed, err
		}
		children, failed, err := p.preReconcile(ctx, c)
		if err != nil || failed != nil {
			return failed, err
		}
		c.Children = children
	}
	return p.callPlugin(ctx, before, c, o)
}

// validate has the plugin check the provider configuration before its first call for the job. failed is the outcome of
// the job if the configuration has problems. A configuration with which the last job has succeeded is not checked
// again, since that costs a good part of a job without a change. Another replica, or another process, asks again, which
// does no harm.
func (p callPhase) validate(ctx context.Context, c plugin.Call) (failed *plugin.Outcome, err error) {
	item := p.tenure.View()
	if p.before != nil { // a job has succeeded with this configuration
		p.result.Validated = item.Generation
	}
	if !p.Plugin.Info().Capabilities.Validate || p.result.Validated == item.Generation {
		return nil, nil //nolint:nilnil // the call follows
	}
	c.DeployItem, c.Forced = move.View(item, p.moving), p.decision.Force || p.decision.Forced
	found, err := telemetry.Validate(ctx, p.Plugin, c)
	if err != nil {
		return nil, joberror.FromCall(err)
	}
	if len(found.Errors) > 0 {
		return &plugin.Outcome{Errors: found.Errors}, nil
	}
	p.result.Validated = item.Generation
	return nil, nil //nolint:nilnil // the call follows
}

// callPlugin calls the plugin for an item that still has the generation before the HTTP hook.
func (p callPhase) callPlugin(
	ctx context.Context, generation int64, c plugin.Call, o *observer,
) (*plugin.Outcome, error) {
	item := p.tenure.View()
	if item.Generation != generation { // the children are of another spec
		return nil, itemclient.ErrOutdated
	}
	c.DeployItem, c.PickUpPending, c.Claims = move.View(item, p.moving), p.tenure.IsPending(), p.claims()
	c.Forced = p.decision.Force || p.decision.Forced
	p.called.begun = true
	outcome, err := telemetry.Call(ctx, p.Plugin, p.operation(), c, o)
	return outcome, joberror.FromCall(err)
}
