// Package job carries on the job of a DeployItem, from the decision to the end of one run.
package job

import (
	"context"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
)

// Run carries a job on. Errors of the job go into the item's status; the returned error is that of a write, a read or
// an End hook, itemclient.ErrOutdated, ErrAbandoned, lock.ErrHeld, or ctx.Err() when the host stops.
//
// The comments here are the steps of "The way of a DeployItem" in docs/architecture.md.
func (r *Runner) Run(ctx context.Context, task Task) (Result, error) {
	w := r.newWork(task)
	err := w.run(ctx, task.Decision)
	w.result.Item = w.tenure.View()
	return *w.result, err
}

func (w *work) run(ctx context.Context, decided contract.Decision) error {
	way := contract.PathOf(w.decision, w.Plugin.Info().Capabilities.Abort, w.hasFinalizer())
	pickUp := &pickUpPhase{work: w, decided: decided}

	// 8. The job gets a slot, or is queued for one; then it acquires the item's lock.
	if way == contract.WithPlugin || way == contract.DeleteWithoutPlugin && w.callsFinalizeHook() {
		slot := slotPhase{pickUp}
		if !slot.acquire() {
			return slot.wait(ctx)
		}
		defer w.Slots.Release(w.key)
	}
	if decided.Action != contract.Start { // else the job does not exist yet
		w.observe(ctx)
	}
	if err := w.acquireLock(ctx); err != nil {
		return err
	}

	// 9. The job is picked up by one write, before the call of a plugin or, with the capability late_pick_up, in the
	// call.
	if way == contract.OnlyWrite {
		return ending{work: w}.byWrite(ctx)
	}
	if err := pickUp.run(ctx); err != nil {
		return err
	}
	switch way {
	case contract.DeleteWithoutPlugin:
		return w.deleteWithoutPlugin(ctx)
	case contract.AbortWithoutPlugin:
		return w.abortWithoutPlugin(ctx)
	default:
		return w.callPlugin(ctx)
	}
}

// callPlugin does the job with its plugin.
func (w *work) callPlugin(ctx context.Context) error {
	end := ending{work: w}

	// 10. Context, Target and its content are resolved; then they and the item get finalizers.
	prepare := preparePhase{w}
	call, err := prepare.resolve(ctx)
	if err != nil {
		return end.handleError(ctx, joberror.FromHost("Prepare", err))
	}
	if err := prepare.addFinalizers(ctx, call); err != nil {
		return w.pickUpAfter(ctx, err)
	}

	// 11. The hooks before the operation run.
	if goesOn, err := end.runBefore(ctx); err != nil || !goesOn {
		return err
	}

	// 12. The plugin is called.
	outcome, err := callPhase{w, &end.call}.run(ctx, call)
	if err != nil {
		return end.handleError(ctx, err)
	}

	// 13. Exports are written, and then the final status; or what the job waits for.
	if err := end.handleOutcome(ctx, outcome); err != nil {
		return err
	}

	// 14. End hooks run.
	return end.runEnd(ctx)
}

// deleteWithoutPlugin deletes an item without its deployed objects; see contract.DeleteWithoutPlugin.
func (w *work) deleteWithoutPlugin(ctx context.Context) error {
	end := ending{work: w}
	if err := (callPhase{w, &end.call}).finalizeOnly(ctx); err != nil {
		return end.handleError(ctx, err)
	}
	return end.finishDeletion(ctx)
}

// abortWithoutPlugin aborts the job of a plugin without Abort.
func (w *work) abortWithoutPlugin(ctx context.Context) error {
	end := ending{work: w}
	if goesOn, err := end.runBefore(ctx); err != nil || !goesOn {
		return err
	}
	if err := end.fail(ctx, contract.AbortedError("")); err != nil {
		return err
	}
	return end.runEnd(ctx)
}
