package job

import (
	"cmp"
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// handleErrors handles the errors of a plugin. A job that needs what another item holds waits for the end of that one
// if it is being deleted.
func (e ending) handleErrors(ctx context.Context, errs []plugin.Error) error {
	problem := joberror.Join(errs)
	holder, what := e.holder(errs)
	if holder == nil || !problem.Heals || !e.deploys() {
		return e.handleError(ctx, problem)
	}
	problem.Held = contract.Held{
		By: client.ObjectKeyFromObject(holder), What: cmp.Or(what, "what this one needs"),
	}
	if holder.DeletionTimestamp == nil {
		return e.handleError(ctx, problem)
	}
	e.runAfter(joberror.RetryPause(e.result.Retries, e.Random()))
	e.result.Retries++ // the end of the holder wakes the job
	err := e.write(ctx, func(item *v1alpha1.DeployItem) { contract.WaitForHolder(item, problem.Held, e.Clock.Now()) })
	if err == nil {
		telemetry.Report(ctx, telemetry.Waits{For: contract.WaitingFor(e.tenure.View())})
	}
	return err
}

// holder returns the other item that holds what this one needs, and what that is; nil for none.
func (w *work) holder(errs []plugin.Error) (holder *v1alpha1.DeployItem, what string) {
	i := slices.IndexFunc(errs, func(e plugin.Error) bool { return e.Held.DeployItem != "" })
	if w.Holders == nil || i < 0 {
		return nil, ""
	}
	holder = w.Holders.Marked(errs[i].Held.DeployItem)
	if holder == nil || client.ObjectKeyFromObject(holder) == w.key {
		return nil, ""
	}
	return holder, errs[i].Held.What
}

// claims returns what living items need of an item that is being deleted. A move leaves nothing to them: they have the
// old Target, and wait for the next try.
func (w *work) claims() []sdk.Claim {
	if w.Holders == nil || w.operation() != plugin.Delete || w.moving.Removes() {
		return nil
	}
	claims, err := w.Holders.Claims(w.tenure.View())
	if err != nil { // without a known claim the plugin removes all
		w.log.Error("the claims of other deploy items are not known", "error", err.Error())
	}
	return claims
}
