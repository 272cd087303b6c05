package controller

import (
	"context"
	"errors"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// heldUp is how long a job without a timeout is left alone that hooks hold up without a word on when to go on.
const heldUp = 24 * time.Hour

// runBefore runs the hooks before the job's operation, and tells whether the job goes on now. One that does not is
// tried again when its hooks want that, or when something changes; otherwise its time runs out.
func (j *job) runBefore(ctx context.Context) (goesOn bool, err error) {
	for _, t := range []sdkhook.Type{sdkhook.BeforeAnyReconcile, j.beforeType()} {
		result, err := j.hooks.run(ctx, t)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			return false, j.handleHookError(ctx, err)
		case aborts(result):
			return false, j.holdUp(ctx, t, result)
		}
	}
	return true, nil
}

// beforeType is the type of the hooks before the job's operation.
func (j *job) beforeType() sdkhook.Type {
	switch {
	case j.decision.Action == contract.Abort:
		return sdkhook.BeforeAbort
	case j.decision.Deletion:
		return sdkhook.BeforeDelete
	case j.decision.Force:
		return sdkhook.BeforeForceReconcile
	default:
		return sdkhook.BeforeReconcile
	}
}

// holdUp notes that a hook holds the job up.
func (j *job) holdUp(ctx context.Context, t sdkhook.Type, result *sdkhook.Result) error {
	j.known.due = j.r.clock.Now().Add(j.pollInterval(heldUp))
	j.log.Info("hook holds the job up", "hookType", string(t), "hookPlugins", j.hooks.aborting)
	return j.wait(ctx, heldBy(t, j.hooks.aborting, result))
}

// handleHookError deals with an error of a hook before the job's operation as with one of the deployer: it depends on
// its codes whether the job is tried again.
func (j *job) handleHookError(ctx context.Context, err error) error {
	var e *hookError
	switch {
	case !errors.As(err, &e):
		return err
	case errors.Is(err, plugin.ErrCrashed):
		return j.handleHookCrash(ctx, e)
	case e.plugin == j.r.name && errors.Is(err, plugin.ErrNotRunning):
		return j.handleCallError(ctx, err)
	default:
		return j.handleError(ctx, e.problem())
	}
}

// runEnd runs the hooks after the plugin has returned. What they have to say cannot change what has come of the job;
// an error has the item looked at again.
func (j *job) runEnd(ctx context.Context) error {
	_, err := j.hooks.run(ctx, sdkhook.End)
	j.r.reportHook(j.item, err)
	var e *hookError
	if errors.As(err, &e) && errors.Is(err, plugin.ErrCrashed) && !j.gone && !j.finished() {
		return j.handleHookCrash(ctx, e)
	}
	return err
}
