package controller

import (
	"context"
	"errors"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// observe sets the job that telemetry events belong to from now on.
func (j *job) observe(ctx context.Context) {
	telemetry.SetJob(ctx, telemetry.Job{
		Plugin: j.r.name, Item: keyOf(j.item), UID: j.item.UID, ID: j.item.Status.JobID, Operation: string(j.operation()),
	})
}

// takeLock acquires the item's lock.
func (j *job) takeLock(ctx context.Context) (err error) {
	key := j.r.lockKey(j.item)
	end := func(string) {}
	if _, off := j.r.locks.(lock.Off); !off && !j.r.locks.Holds(key) { // else there is no request
		ctx, end = telemetry.Begin(ctx, telemetry.Work{Of: telemetry.KindLock})
	}
	j.lock, err = j.r.locks.Acquire(ctx, key)
	switch {
	case err == nil:
		end(telemetry.ResultDone)
	case errors.Is(err, lock.ErrHeld):
		end(telemetry.ResultConflict)
	default:
		end(telemetry.ResultError)
	}
	return err
}

// queuedSince is since when the job is queued for a slot; zero if it is not.
func (j *job) queuedSince() time.Time {
	times := j.item.Status.TransitionTimes
	switch {
	case !j.queued():
		return time.Time{}
	case j.known.since.IsZero() && times != nil && times.InitTime != nil:
		return times.InitTime.Time
	default:
		return j.known.since
	}
}

// reportPickedUp reports that the job was picked up, or, if it was queued since a time, that it has a slot now.
func (j *job) reportPickedUp(ctx context.Context, queuedSince time.Time) {
	j.observe(ctx)
	if queuedSince.IsZero() {
		telemetry.Report(ctx, telemetry.PickedUp{Triggered: triggered(j.item), Queued: contract.IsQueued(j.item)})
	} else {
		telemetry.Report(ctx, telemetry.Dequeued{Waited: max(0, j.known.since.Sub(queuedSince))})
	}
}

// reportEnded reports that the job has ended in a phase.
func (j *job) reportEnded(ctx context.Context, phase v1alpha1.DeployItemPhase) {
	e := telemetry.Ended{Phase: phase, Triggered: triggered(j.item), PickedUp: j.known.since}
	if times := j.item.Status.TransitionTimes; e.PickedUp.IsZero() && times != nil && times.InitTime != nil {
		e.PickedUp = times.InitTime.Time
	}
	if last := j.item.Status.LastError; last != nil && phase != v1alpha1.DeployItemPhaseSucceeded {
		e.Error = &telemetry.Error{Codes: last.Codes, Reason: last.Reason, Text: last.Message}
	}
	telemetry.Report(ctx, e)
}

// triggered is when an item's job was set; zero if that is unknown.
func triggered(item *v1alpha1.DeployItem) time.Time {
	if set := item.Status.JobIDGenerationTime; set != nil {
		return set.Time
	}
	return time.Time{}
}

// callPlugin calls the plugin for an operation.
func (j *job) callPlugin(
	ctx context.Context, operation plugin.Operation, c plugin.Call, o plugin.Observer,
) (*plugin.Outcome, error) {
	j.calling = true
	ctx, end := telemetry.Begin(ctx, telemetry.Work{Of: telemetry.KindCall, Name: string(operation), By: j.r.name})
	outcome, err := j.r.plugin.Call(ctx, operation, c, o)
	switch {
	case err != nil:
		end(telemetry.ResultOf(ctx, err))
	case outcome.Succeeded != nil:
		end(telemetry.ResultDone)
	case outcome.InProgress != nil:
		end(telemetry.ResultInProgress)
	default:
		end(telemetry.ResultFailed)
	}
	return outcome, callError(err)
}

// render asks the plugin for the desired objects.
func (j *job) render(ctx context.Context, c plugin.Call) (*plugin.Rendered, error) {
	ctx, end := telemetry.Begin(ctx, telemetry.Work{Of: telemetry.KindCall, Name: "Render", By: j.r.name})
	rendered, err := j.r.plugin.Render(ctx, c)
	switch {
	case err != nil:
		end(telemetry.ResultOf(ctx, err))
	case len(rendered.Errors) > 0:
		end(telemetry.ResultFailed)
	default:
		end(telemetry.ResultDone)
	}
	return rendered, callError(err)
}

// beginHTTPHook begins a call of an HTTP hook.
func beginHTTPHook(
	ctx context.Context, h *httphook.Hook, phase v1alpha1.HookCapability,
) (_ context.Context, end func(error)) {
	work := telemetry.Work{Of: telemetry.KindHTTPHook, Name: string(phase), By: h.Registration()}
	ctx, done := telemetry.Begin(ctx, work)
	return ctx, func(err error) {
		switch {
		case err == nil:
			done(telemetry.ResultDone)
		case ctx.Err() != nil:
			done(telemetry.ResultCanceled)
		default:
			done(telemetry.ResultFailed)
		}
	}
}
