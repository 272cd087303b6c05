package controller

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// defaultMaxCrashes is how often a plugin may die in the middle of the calls for a job if nobody says otherwise.
const defaultMaxCrashes = 3

// leaveBehind is what a user can do about a deletion that does not succeed.
const leaveBehind = "annotate the deploy item with " + v1alpha1.DeleteWithoutUninstallAnnotation +
	`: "true", and it goes without what it has deployed`

// handleCrash counts that the plugin has died in the middle of the job's call. The last of so many crashes ends the
// job, because it may be what kills the plugin, and with it the calls of others. The count is in the status: it is
// that of all replicas, and outlives them.
func (j *job) handleCrash(ctx context.Context) error {
	j.known.waitsForPlugin = true
	return j.countCrash(ctx, contract.Error{
		Operation: "CallPlugin", Message: fmt.Sprintf("the plugin %q ended in the middle of the call", j.r.name),
	})
}

// handleHookCrash counts that a plugin has died in the middle of a hook for the job, in the same way.
func (j *job) handleHookCrash(ctx context.Context, e *hookError) error {
	j.known.waitsForPlugin = e.plugin == j.r.name
	j.known.retries = max(j.known.retries, 1) // so that it is tried again when the plugin runs, whichever it is
	return j.countCrash(ctx, contract.Error{
		Operation: string(e.hookType),
		Message:   fmt.Sprintf("the plugin %q ended in the middle of its %s hook", e.plugin, e.hookType),
	})
}

// countCrash writes down that a plugin has died. what says where.
func (j *job) countCrash(ctx context.Context, what contract.Error) error {
	crashes := contract.Crashes(j.item) + 1
	e := crashError(what, j.decision.Deletion, crashes, j.r.options.MaxCrashes)
	note := func(item *v1alpha1.DeployItem) { contract.NoteCrashes(item, crashes, j.r.clock.Now()) }
	if e.Final() {
		return j.handleError(ctx, e)
	}
	return j.retry(ctx, e, j.pollInterval(pluginPoll), note)
}

// crashError says that a plugin has died in the middle of the calls for a job. It is final when that has happened
// limit times.
func crashError(e contract.Error, deletion bool, crashes, limit int) contract.Error {
	e.Reason = contract.ReasonPluginCrashed
	if crashes < limit {
		e.Message = fmt.Sprintf("%s (%d of %d); it is tried again when the plugin runs", e.Message, crashes, limit)
		return e
	}
	e.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}
	times := fmt.Sprintf("%d times", crashes)
	if crashes == 1 {
		times = "once"
	}
	e.Message = fmt.Sprintf(
		"%s, %s for this job; its last words are in the host's log. A new job tries it again", e.Message, times)
	if deletion {
		e.Message += "; or " + leaveBehind
	}
	return e
}
