package job

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// observe sets the job of the telemetry events from now on.
func (w *work) observe(ctx context.Context) { w.observeAs(ctx, w.tenure.View()) }

func (w *work) observeAs(ctx context.Context, item *v1alpha1.DeployItem) {
	telemetry.SetJob(ctx, telemetry.Job{
		Plugin: w.Plugin.Name(), Item: w.key, UID: item.UID, ID: item.Status.JobID, Operation: string(w.operation()),
	})
}

// reportPickedUp reports a pick-up, or the slot of a queued job.
func (w *work) reportPickedUp(ctx context.Context, item *v1alpha1.DeployItem, queuedSince time.Time) {
	w.observeAs(ctx, item)
	if queuedSince.IsZero() {
		telemetry.Report(ctx, telemetry.PickedUp{Triggered: triggered(item), Queued: contract.IsQueued(item)})
	} else {
		telemetry.Report(ctx, telemetry.Dequeued{Waited: max(0, w.result.Since.Sub(queuedSince))})
	}
}

// reportEnded reports the end of the job in a phase.
func (w *work) reportEnded(ctx context.Context, phase v1alpha1.DeployItemPhase) {
	item := w.tenure.View()
	e := telemetry.Ended{Phase: phase, Triggered: triggered(item), PickedUp: w.result.Since}
	if times := item.Status.TransitionTimes; e.PickedUp.IsZero() && times != nil && times.InitTime != nil {
		e.PickedUp = times.InitTime.Time
	}
	if last := item.Status.LastError; last != nil && phase != v1alpha1.DeployItemPhaseSucceeded {
		e.Error = &telemetry.Error{Codes: last.Codes, Reason: last.Reason, Text: last.Message}
	}
	telemetry.Report(ctx, e)
}

// triggered is the time when an item's job was set; zero if that is unknown.
func triggered(item *v1alpha1.DeployItem) time.Time {
	if set := item.Status.JobIDGenerationTime; set != nil {
		return set.Time
	}
	return time.Time{}
}
