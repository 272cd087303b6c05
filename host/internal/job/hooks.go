package job

import (
	"context"
	"errors"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// hookPoll is the pause of a job without a deadline if its hooks name no time.
const hookPoll = 24 * time.Hour

// runBefore runs the plugin hooks before the job's operation, and reports whether the job goes on. Otherwise it runs
// again at the request of its hooks, after a change of the item, or at its deadline.
func (e ending) runBefore(ctx context.Context) (goesOn bool, err error) {
	for _, t := range []sdkhook.Type{sdkhook.BeforeAnyReconcile, e.beforeType()} {
		held, err := e.hooks.Run(ctx, t, e.tenure.View())
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			return false, e.handleError(ctx, err)
		case held != nil:
			e.runAfter(hookPoll)
			e.log.Info("hook holds the job up", "hookType", string(t), "hookPlugins", held.Plugins)
			return false, e.wait(ctx, held.Message)
		}
	}
	return true, nil
}

// runEnd runs the End hooks. They cannot change the outcome of the job; after an error the item is reconciled again.
func (e ending) runEnd(ctx context.Context) error {
	item := e.tenure.View()
	_, err := e.hooks.Run(ctx, sdkhook.End, item)
	e.hooks.ReportError(item, err)
	if errors.Is(err, plugin.ErrCrashed) && !e.result.Gone && !contract.Finished(item) {
		return e.handleError(ctx, err)
	}
	return err
}
