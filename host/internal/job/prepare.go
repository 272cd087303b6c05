package job

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const reasonReferenceNotKept = "ReferenceNotKept"

// preparePhase makes the call of the plugin ready.
type preparePhase struct {
	*work
}

// resolve resolves Context, Target and, at the plugin's request, the objects named by the Context. Errors are those of
// package target, contract.Error, or of the API server.
func (p preparePhase) resolve(ctx context.Context) (plugin.Call, error) {
	item := p.tenure.View()
	deadline, err := contract.Deadline(item)
	if err != nil {
		return plugin.Call{}, err
	}
	lsContext, contextErr := p.Targets.Context(ctx, item)
	resolved, targetErr := p.target(ctx, item)
	if err := errors.Join(targetErr, contextErr); err != nil {
		return plugin.Call{}, err
	}
	c := plugin.Call{Target: resolved, Context: lsContext, Deadline: deadline, ChecksHealth: p.Standalone}
	if err := c.ReadNamed(ctx, p.Plugin.Info().Capabilities, p.Targets); err != nil {
		return plugin.Call{}, err
	}
	return c, nil
}

// target resolves the item's own Target, or the old one for its step of a move.
func (p preparePhase) target(ctx context.Context, item *v1alpha1.DeployItem) (*v1alpha1.ResolvedTarget, error) {
	if !p.moving.Removes() {
		return p.Targets.Target(ctx, item)
	}
	resolved, err := p.Targets.Named(ctx, item.Namespace, move.From(item))
	if err != nil {
		return nil, joberror.FromOther(err)
	}
	return resolved, nil
}

// addFinalizers adds the finalizers before anything is deployed for the item: to the item, and to what its deletion
// reads.
func (p preparePhase) addFinalizers(ctx context.Context, call plugin.Call) error {
	if !p.deploys() {
		return nil
	}
	if err := p.tenure.AddFinalizer(ctx); err != nil || p.Keeper == nil {
		return err
	}
	used := []client.Object{call.Context}
	if call.Target != nil {
		used = append(used, call.Target.Target)
	}
	err := p.Keeper.Keep(ctx, used...)
	if apierrors.IsForbidden(err) { // deletion in any order is not worth a failure
		p.event(corev1.EventTypeWarning, reasonReferenceNotKept,
			err.Error()+"; delete the deploy item before it, or give the host this permission")
		return nil
	}
	return err
}
