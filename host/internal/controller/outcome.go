package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// pluginPoll is how long a job waits for a plugin that is not running, if nothing wakes it earlier.
	pluginPoll = 30 * time.Second
	// maxMessage bounds the message of an error in the status.
	maxMessage = 16 << 10
)

// errAbandoned says that the host stops and the plugin did not end its call: it may still be at work, so that nobody
// else may begin before it has ended.
var errAbandoned = errors.New("the plugin's call was abandoned")

// handleError handles an error of a job: the job fails, waits for its plugin, or is tried again later. It returns
// errors that are neither a contract.Error nor one of a call, errOutdated, and ctx.Err() when the host stops.
func (j *job) handleError(ctx context.Context, err error) error {
	var e contract.Error
	known := errors.As(err, &e)
	crashed, notRunning := errors.Is(err, plugin.ErrCrashed), errors.Is(err, plugin.ErrNotRunning)
	switch {
	case ctx.Err() != nil && !j.reported && j.calling && !crashed && !notRunning:
		return errAbandoned
	case ctx.Err() != nil && !j.reported:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) && j.decision.Action == contract.Abort:
		return j.giveUp(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return j.fail(ctx, j.callTimeout())
	case crashed:
		return j.countCrash(ctx, e, errors.Is(err, plugin.ErrBeside))
	case notRunning && (e.Plugin == "" || e.Plugin == j.r.name):
		return j.waitForPlugin(ctx, err)
	case !known:
		return err
	}
	e = j.advise(e)
	if e.Final() && j.decision.Action == contract.Abort {
		e = contract.AbortedError("its deployer could not do it in its own way: " + e.Message)
	}
	if e.Final() {
		return j.fail(ctx, e)
	}
	if notRunning {
		j.known.waitsFor = e.Plugin
	}
	pause := max(retryPause(j.known.retries, j.r.random()), min(e.RetryAfter, maxRetry))
	j.known.retries++
	return j.retry(ctx, e, j.pollInterval(pause))
}

// callTimeout is the error of a job that has exceeded its time during a call.
func (j *job) callTimeout() contract.Error {
	item := j.item.DeepCopy()
	if j.message != "" {
		contract.Step(item, j.step, j.message, j.r.clock.Now())
	}
	if !j.calling {
		return j.timeoutError(item, "")
	}
	return j.timeoutError(item, fmt.Sprintf("the plugin %q had not ended the call %s", j.r.name, j.operation()))
}

// waitForPlugin has the job reconciled again when its plugin runs.
func (j *job) waitForPlugin(ctx context.Context, err error) error {
	j.log.Warn("plugin did not finish the call; the job goes on when it runs again", "error", err.Error())
	if errors.Is(err, plugin.ErrUnhealthy) { // the reason may name an item of another namespace
		j.r.recorder.Record(j.item, corev1.EventTypeWarning, "PluginUnhealthy", fmt.Sprintf(
			"the plugin %q was unhealthy and was killed in the middle of the call %s, for a reason that is in the "+
				"host's log; the call is repeated", j.r.name, j.operation()))
	}
	j.known.due, j.known.waitsFor = j.r.clock.Now().Add(j.pollInterval(pluginPoll)), j.r.name
	if contract.ShowsCrash(j.item) {
		return nil
	}
	return j.wait(ctx, fmt.Sprintf("the plugin %q to run again", j.r.name))
}

// handleOutcome writes the outcome of a call into the status. A refusal of the API server becomes an error of the job:
// otherwise the write would be tried for ever and nobody would know why.
func (j *job) handleOutcome(ctx context.Context, outcome *plugin.Outcome) error {
	j.reported = true
	j.noteAnswer(outcome)
	if err := checkProviderStatus(outcome.ProviderStatus); outcome.ProviderStatus != nil && err != nil {
		return j.handleError(ctx, protocolError(err))
	}
	if j.refused != nil && outcome.Succeeded == nil { // the plugin has gone no further
		return j.failRefused(ctx, j.refused)
	}
	err := j.writeOutcome(ctx, outcome)
	if errors.Is(err, itemclient.ErrOutdated) {
		j.keepProviderStatus(ctx, outcome)
		return err
	}
	var refused *itemclient.RefusedError
	if errors.As(err, &refused) {
		return j.failRefused(ctx, refused)
	}
	return err
}

// failRefused ends the job because the API server refuses the status of the plugin, as it would after another call. The
// provider status that was saved last stays.
func (j *job) failRefused(ctx context.Context, refused *itemclient.RefusedError) error {
	j.log.Warn("the API server refuses the status of the plugin", "error", refused.Error())
	j.noteWith(nil)
	return j.handleError(ctx, contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Operation: "WriteStatus", Reason: "StatusRefused",
		Message: fmt.Sprintf("with what the plugin %q has to keep in it, %v; if it is too large, split the deploy item",
			j.r.name, refused),
	})
}

func (j *job) writeOutcome(ctx context.Context, outcome *plugin.Outcome) error {
	if err := errors.Join(checkExports(outcome.Succeeded), sdk.CheckConditions(outcome.Conditions)); err != nil {
		j.noteWith(withProviderStatus(outcome.ProviderStatus)) // it is valid, and names what is deployed
		return j.handleError(ctx, protocolError(err))
	}
	j.noteWith(func(item *v1alpha1.DeployItem) {
		withProviderStatus(outcome.ProviderStatus)(item)
		contract.SetReported(item, outcome.Conditions, j.r.clock.Now())
	})
	switch {
	case outcome.Succeeded != nil && j.decision.Action == contract.Abort:
		return j.fail(ctx, contract.AbortedError(""))
	case outcome.Succeeded != nil && j.decision.Deletion:
		return j.finishDeletion(ctx)
	case outcome.Succeeded != nil:
		return j.succeed(ctx, outcome)
	case outcome.InProgress != nil:
		j.known.retries = 0
		j.known.due = j.r.clock.Now().Add(j.pollInterval(outcome.InProgress.PollAfter))
		j.log.Debug("job waits", "for", outcome.InProgress.WaitingFor)
		return j.wait(ctx, outcome.InProgress.WaitingFor)
	default:
		if ctx.Err() != nil { // the plugin failed because it was asked to stop
			return errors.Join(ctx.Err(), j.writeStatus(ctx, func(*v1alpha1.DeployItem) {}))
		}
		return j.handleError(ctx, joinErrors(outcome.Errors))
	}
}

// noteAnswer notes whether the item's target has answered. Of other errors it is not known.
func (j *job) noteAnswer(outcome *plugin.Outcome) {
	switch {
	case slices.ContainsFunc(outcome.Errors, func(e plugin.Error) bool { return e.TargetSilent }):
		j.r.slots.SetAnswered(shareOf(j.item), false)
	case outcome.Succeeded != nil || outcome.InProgress != nil:
		j.r.slots.SetAnswered(shareOf(j.item), true)
	}
}

func withProviderStatus(document []byte) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) {
		if document != nil {
			item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
		}
	}
}

// wait writes what the job waits for, if the status does not show it yet.
func (j *job) wait(ctx context.Context, waitingFor string) error {
	err := j.writeStatus(ctx, func(item *v1alpha1.DeployItem) { contract.Wait(item, waitingFor, j.r.clock.Now()) })
	if err == nil {
		telemetry.Report(ctx, telemetry.Waits{For: waitingFor})
	}
	return err
}

// succeedUnchanged ends a job of an unchanged item with updateOnChangeOnly.
func (j *job) succeedUnchanged(ctx context.Context) error {
	err := j.r.items.UpdateStatus(ctx, j.item, func(item *v1alpha1.DeployItem) {
		contract.FinishUnchanged(item, j.deployer(), j.r.clock.Now())
	})
	if err == nil {
		j.log.Info("job skipped: nothing has changed since the last success")
		j.known.since = j.r.clock.Now()
		j.reportPickedUp(ctx, time.Time{})
		j.reportEnded(ctx, j.item.Status.Phase)
	}
	return err
}

// updateConditions updates the conditions after somebody else has ended a job that was picked up here.
func (j *job) updateConditions(ctx context.Context) error {
	err := j.r.items.UpdateStatus(ctx, j.item, func(item *v1alpha1.DeployItem) {
		contract.FinishConditions(item, j.r.clock.Now())
	})
	if err == nil {
		j.endedUnreported()
		j.reportEnded(ctx, j.item.Status.Phase)
	}
	return err
}

// endedUnreported reports that a job has ended without an outcome of the plugin, which may have left something behind.
func (j *job) endedUnreported() {
	if j.r.options.JobEnded != nil && !j.reported {
		j.r.options.JobEnded(j.r.name)
	}
}

// succeed writes the exports, and then phase and jobIDFinished in one write.
func (j *job) succeed(ctx context.Context, outcome *plugin.Outcome) error {
	if j.lockLost() {
		return itemclient.ErrOutdated
	}
	if outcome.Succeeded.Exports != nil && j.stored != nil { // the Secret must not change before the pick-up
		if err := j.writeStatus(ctx, contract.Progress); err != nil {
			return err
		}
	}
	ref, err := j.r.exports.Write(ctx, j.item, outcome.Succeeded.Exports, j.lock.Verify)
	if errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	}
	if err != nil {
		return j.handleError(ctx, asError("WriteExports", err))
	}
	err = j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		if ref != nil {
			item.Status.ExportReference = ref
		}
		contract.SucceedWith(item, j.conditions, j.r.clock.Now())
	})
	if err != nil {
		return err
	}
	j.reportEnded(ctx, j.item.Status.Phase)
	j.log.Info("job succeeded")
	changed := j.before == nil || !reflect.DeepEqual(j.before.ProviderStatus, j.item.Status.ProviderStatus)
	if changed && !j.told {
		j.r.recorder.Record(j.item, corev1.EventTypeNormal, "Succeeded", "the job "+j.item.Status.JobID+" succeeded")
	}
	return nil
}

// finishDeletion removes the finalizer, which ends the deletion. An item that has other finalizers gets a final status.
func (j *job) finishDeletion(ctx context.Context) error {
	if err := j.write(ctx, func() error { return j.r.items.RemoveFinalizer(ctx, j.item) }); err != nil {
		return err
	}
	if j.gone = len(j.item.Finalizers) == 0; !j.gone {
		err := j.writeStatus(ctx, func(item *v1alpha1.DeployItem) { contract.Succeed(item, j.r.clock.Now()) })
		if err != nil {
			return err
		}
	}
	j.reportEnded(ctx, v1alpha1.DeployItemPhaseSucceeded)
	j.log.Info("deletion succeeded")
	j.r.recorder.Record(j.item, corev1.EventTypeNormal, "Deleted", "the deletion succeeded")
	return nil
}

// retry writes an error into the status, and has the job tried again after a pause.
func (j *job) retry(ctx context.Context, e contract.Error, pause time.Duration) error {
	j.known.due = j.r.clock.Now().Add(pause)
	j.log.Log(ctx, level(e), "job met an error; it is tried again",
		"reason", e.Reason, "error", e.Message, "at", j.known.due)
	changed := false
	err := j.writeStatus(ctx, func(item *v1alpha1.DeployItem) { changed = contract.Retry(item, e, j.r.clock.Now()) })
	if err != nil {
		return err
	}
	telemetry.Report(ctx, telemetry.Retries{Error: telemetry.Error{Codes: e.Codes, Reason: e.Reason, Text: e.Message}})
	if changed {
		j.r.recorder.Record(j.item, eventType(e), e.Reason, e.Message)
	}
	return nil
}

// fail ends the job with an error.
func (j *job) fail(ctx context.Context, e contract.Error) error {
	return j.end(ctx, func(item *v1alpha1.DeployItem) { contract.Fail(item, j.decision.Deletion, e, j.r.clock.Now()) })
}

// giveUp ends an aborted job without its deployer.
func (j *job) giveUp(ctx context.Context) error {
	return j.end(ctx, func(item *v1alpha1.DeployItem) {
		contract.EndAborted(item, j.decision.Deletion, j.deployer(), j.r.clock.Now())
	})
}

// repair ends a job that was replaced by a finished one.
func (j *job) repair(ctx context.Context) error {
	return j.end(ctx, func(item *v1alpha1.DeployItem) {
		contract.EndReplaced(item, j.decision.Deletion, j.r.clock.Now())
	})
}

// end writes the final status of a failed job, and reports its error.
func (j *job) end(ctx context.Context, change func(*v1alpha1.DeployItem)) error {
	if err := j.writeStatus(ctx, change); err != nil {
		return err
	}
	j.endedUnreported()
	j.reportEnded(ctx, j.item.Status.Phase)
	last := j.item.Status.LastError
	e := contract.Error{Codes: last.Codes, Reason: last.Reason, Message: last.Message}
	j.log.Log(ctx, level(e), "job failed", "reason", e.Reason, "error", e.Message)
	j.r.recorder.Record(j.item, eventType(e), e.Reason, e.Message)
	return nil
}
