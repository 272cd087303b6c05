package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/tenure"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The reasons of events about the end of a call.
const (
	reasonDeleted         = "Deleted"
	reasonPluginUnhealthy = "PluginUnhealthy"
)

// PluginPoll is the pause of a job that waits for a plugin to run, if nothing wakes it earlier.
const PluginPoll = 30 * time.Second

// ending writes the end of a job, or of a run of it.
type ending struct {
	*work
	call called
}

// called is known after the attempt of a call. The zero value stands for none.
type called struct {
	begun    bool // the plugin was called
	answered bool // it has returned an outcome
	told     bool // it has recorded an event other than a warning
	// step and message are the plugin's last progress if it is not written yet.
	step, message string
	// refused is an error of the API server about a provider status to be saved; nil if there was none.
	refused *itemclient.RefusedError
	// conditions are those of the item's HTTP hook.
	conditions []v1alpha1.ConditionType
	// note is to be written together with the end; nil for none.
	note tenure.Change
}

// with is the ending with a note.
func (e ending) with(note tenure.Change) ending {
	e.call.note = note
	return e
}

// write writes a change of the status, and the note with it.
func (e ending) write(ctx context.Context, c tenure.Change) error {
	return e.tenure.Write(ctx, func(item *v1alpha1.DeployItem) {
		if e.call.note != nil {
			e.call.note(item)
		}
		c(item)
	})
}

// handleError handles an error of a job: the job fails, waits for its plugin, or is tried again later. It returns
// itemclient.ErrOutdated, ErrAbandoned, ctx.Err() when the host stops, and other errors of the API server.
func (e ending) handleError(ctx context.Context, err error) error {
	var problem contract.Error
	known := errors.As(err, &problem)
	crashed, notRunning := errors.Is(err, plugin.ErrCrashed), errors.Is(err, plugin.ErrNotRunning)
	switch {
	case ctx.Err() != nil && !e.call.answered && e.call.begun && !crashed && !notRunning:
		return ErrAbandoned
	case ctx.Err() != nil && !e.call.answered:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) && e.decision.Action == contract.Abort:
		return e.giveUp(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return e.fail(ctx, e.callTimeout())
	case crashed:
		return e.countCrash(ctx, problem, errors.Is(err, plugin.ErrBeside))
	case notRunning && (problem.Plugin == "" || problem.Plugin == e.Plugin.Name()):
		return e.waitForPlugin(ctx, err)
	case !known:
		return err
	}
	return e.handleProblem(ctx, problem, notRunning)
}

// handleProblem ends the job with a final error, and has it tried again after another one.
func (e ending) handleProblem(ctx context.Context, problem contract.Error, notRunning bool) error {
	if e.decision.Deletion {
		problem = joberror.Advise(problem)
	}
	if problem.Final() && e.decision.Action == contract.Abort {
		problem = contract.AbortedError("its deployer could not do it in its own way: " + problem.Message)
	}
	if problem.Final() {
		return e.fail(ctx, problem)
	}
	if notRunning {
		e.result.WaitsFor = problem.Plugin
	}
	pause := joberror.RetryPause(e.result.Retries, e.Random())
	if asked := min(problem.RetryAfter, joberror.MaxRetryAfter); asked >= pause {
		pause, problem.RetryAfter = asked, asked
	} else {
		problem.RetryAfter = 0 // the host's own pause is longer, and nothing is as asked for
	}
	e.result.Retries++
	return e.retry(ctx, problem, pause)
}

// callTimeout is the error of a job that has exceeded its time during a call.
func (e ending) callTimeout() contract.Error {
	item := e.tenure.View()
	if e.call.message != "" {
		item = item.DeepCopy()
		contract.Step(item, e.call.step, e.call.message, e.Clock.Now())
	}
	if !e.call.begun {
		return e.timeoutError(item, "")
	}
	return e.timeoutError(item, fmt.Sprintf("the plugin %q had not ended the call %s", e.Plugin.Name(), e.operation()))
}

// timeoutError is contract.TimeoutError. Without a Landscaper, a job in wait for a missing object is restarted when
// the object exists; see contract.FailedForMissingReference.
func (e ending) timeoutError(item *v1alpha1.DeployItem, underWay string) contract.Error {
	problem := contract.TimeoutError(item, underWay)
	problem.Held = contract.HeldOf(item)
	if e.Standalone && underWay == "" && contract.WaitsForReference(item) {
		problem.Operation = contract.OperationResolve
	}
	return problem
}

// waitForPlugin has the job run again when its plugin runs.
func (e ending) waitForPlugin(ctx context.Context, err error) error {
	e.log.Warn("plugin did not finish the call; the job goes on when it runs again", "error", err.Error())
	if errors.Is(err, plugin.ErrUnhealthy) { // the reason may name an item of another namespace
		e.event(corev1.EventTypeWarning, reasonPluginUnhealthy, fmt.Sprintf(
			"the plugin %q was unhealthy and was killed in the middle of the call %s, for a reason that is in the "+
				"host's log; the call is repeated", e.Plugin.Name(), e.operation()))
	}
	e.runAfter(PluginPoll)
	e.result.WaitsFor = e.Plugin.Name()
	if contract.ShowsCrash(e.tenure.View()) {
		return nil
	}
	return e.wait(ctx, fmt.Sprintf("the plugin %q to run again", e.Plugin.Name()))
}

// countCrash counts a crash of a plugin during the job's call, or during a hook for it, named by problem. At the limit
// the job fails: it may crash the plugin, and with it the calls of others. The count is in the status, for all
// replicas.
func (e ending) countCrash(ctx context.Context, problem contract.Error, beside bool) error {
	where := contract.Error{
		Operation: "CallPlugin", Message: fmt.Sprintf("the plugin %q ended in the middle of the call", e.Plugin.Name()),
	}
	if problem.Plugin != "" {
		where = contract.Error{
			Operation: problem.Operation,
			Message:   fmt.Sprintf("the plugin %q ended in the middle of its %s hook", problem.Plugin, problem.Operation),
		}
	}
	crashes := contract.Crashes(e.tenure.View()) + 1
	if beside { // any of the calls may be the cause
		crashes += joberror.BesideCounts - 1
		where.Message += ", beside other calls"
	}
	crash := joberror.Crash(where, e.decision.Deletion, crashes, e.MaxCrashes)
	if crash.Final() {
		return e.handleError(ctx, crash)
	}
	e.result.WaitsFor = cmp.Or(problem.Plugin, e.Plugin.Name())
	counted := e.with(func(item *v1alpha1.DeployItem) { contract.NoteCrashes(item, crashes, e.Clock.Now()) })
	return counted.retry(ctx, crash, PluginPoll)
}

// wait writes what the job waits for, if the status does not show it yet.
func (e ending) wait(ctx context.Context, waitingFor string) error {
	err := e.write(ctx, func(item *v1alpha1.DeployItem) { contract.Wait(item, waitingFor, e.Clock.Now()) })
	if err == nil {
		telemetry.Report(ctx, telemetry.Waits{For: waitingFor})
	}
	return err
}

// retry writes an error into the status, and has the job tried again after a pause.
func (e ending) retry(ctx context.Context, problem contract.Error, pause time.Duration) error {
	e.runAfter(pause)
	e.log.Log(ctx, joberror.Level(problem), "job met an error; it is tried again",
		"reason", problem.Reason, "error", problem.Message, "at", e.result.Due)
	changed := false
	err := e.write(ctx, func(item *v1alpha1.DeployItem) { changed = contract.Retry(item, problem, e.Clock.Now()) })
	if err != nil {
		return err
	}
	telemetry.Report(ctx, telemetry.Retries{
		Error: telemetry.Error{Codes: problem.Codes, Reason: problem.Reason, Text: problem.Message},
	})
	if changed {
		e.event(joberror.EventType(problem), problem.Reason, problem.Message)
	}
	return nil
}

// fail ends the job with an error.
func (e ending) fail(ctx context.Context, problem contract.Error) error {
	return e.endFailed(ctx, func(item *v1alpha1.DeployItem) {
		e.Pauses.Fail(item, e.decision.Deletion, problem, e.Random(), e.Clock.Now())
	})
}

// giveUp ends an aborted job without its deployer.
func (e ending) giveUp(ctx context.Context) error {
	return e.endFailed(ctx, func(item *v1alpha1.DeployItem) {
		contract.EndAborted(item, e.decision.Deletion, e.deployer(), e.Clock.Now())
	})
}

// endFailed writes the final status of a failed job, and reports its error.
func (e ending) endFailed(ctx context.Context, c tenure.Change) error {
	if err := e.write(ctx, c); err != nil {
		return err
	}
	e.reportWithoutOutcome()
	item := e.tenure.View()
	e.reportEnded(ctx, item.Status.Phase)
	last := item.Status.LastError
	problem := contract.Error{Codes: last.Codes, Reason: last.Reason, Message: last.Message}
	e.log.Log(ctx, joberror.Level(problem), "job failed", "reason", problem.Reason, "error", problem.Message)
	e.event(joberror.EventType(problem), problem.Reason, problem.Message)
	return nil
}

// reportWithoutOutcome reports the end of a job without an outcome of the plugin: the plugin may have leftovers.
func (e ending) reportWithoutOutcome() {
	if e.JobEnded != nil && !e.call.answered {
		e.JobEnded(e.Plugin.Name())
	}
}

// byWrite ends a job by one write.
func (e ending) byWrite(ctx context.Context) error {
	switch e.decision.Action {
	case contract.SucceedUnchanged:
		return e.succeedUnchanged(ctx)
	case contract.TimedOut:
		return e.fail(ctx, e.timeoutError(e.tenure.View(), ""))
	case contract.GiveUp:
		return e.giveUp(ctx)
	case contract.Repair: // the job was replaced by a finished one
		return e.endFailed(ctx, func(item *v1alpha1.DeployItem) {
			contract.EndReplaced(item, e.decision.Deletion, e.Clock.Now())
		})
	default:
		return e.finishConditions(ctx)
	}
}

// succeedUnchanged ends a job of an unchanged item with updateOnChangeOnly.
func (e ending) succeedUnchanged(ctx context.Context) error {
	err := e.tenure.WriteOnce(ctx, func(item *v1alpha1.DeployItem) {
		contract.FinishUnchanged(item, e.deployer(), e.Clock.Now())
	})
	if err == nil {
		e.log.Info("job skipped: nothing has changed since the last success")
		e.result.Since = e.Clock.Now()
		item := e.tenure.View()
		e.reportPickedUp(ctx, item, time.Time{})
		e.reportEnded(ctx, item.Status.Phase)
	}
	return err
}

// finishConditions updates the conditions after another client has ended the job.
func (e ending) finishConditions(ctx context.Context) error {
	err := e.tenure.WriteOnce(ctx, func(item *v1alpha1.DeployItem) { contract.FinishConditions(item, e.Clock.Now()) })
	if err == nil {
		e.reportWithoutOutcome()
		e.reportEnded(ctx, e.tenure.View().Status.Phase)
	}
	return err
}

// finishDeletion removes the finalizer, which ends the deletion. An item with other finalizers gets a final status.
func (e ending) finishDeletion(ctx context.Context) error {
	if err := e.tenure.RemoveFinalizer(ctx); err != nil {
		return err
	}
	if e.result.Gone = len(e.tenure.View().Finalizers) == 0; !e.result.Gone {
		err := e.write(ctx, func(item *v1alpha1.DeployItem) { contract.Succeed(item, e.Clock.Now()) })
		if err != nil {
			return err
		}
	}
	e.reportEnded(ctx, v1alpha1.DeployItemPhaseSucceeded)
	e.log.Info("deletion succeeded")
	e.event(corev1.EventTypeNormal, reasonDeleted, "the deletion succeeded")
	return nil
}
