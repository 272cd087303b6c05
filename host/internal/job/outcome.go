package job

import (
	"context"
	"errors"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/tenure"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// handleOutcome writes the outcome of a call into the status.
func (e ending) handleOutcome(ctx context.Context, outcome *plugin.Outcome) error {
	e.noteAnswer(outcome)
	if e.call.refused != nil && outcome.Succeeded == nil { // the plugin has gone no further
		return e.failRefused(ctx, e.call.refused)
	}
	if err := outcome.Refused(); err != nil { // its provider status is valid, and names what is deployed
		return e.with(move.Save(e.moving, outcome.ProviderStatus)).handleError(ctx, joberror.Protocol(err))
	}
	outcome, moved, err := e.afterMove(ctx, outcome)
	if err != nil {
		return e.handleError(ctx, err)
	}
	err = e.writeOutcome(ctx, outcome, moved)
	if errors.Is(err, itemclient.ErrOutdated) {
		e.keepProviderStatus(ctx, outcome)
		return err
	}
	if refused, ok := errors.AsType[*itemclient.RefusedError](err); ok {
		return e.failRefused(ctx, refused)
	}
	return err
}

// noteAnswer notes whether the item's target has answered. Other errors do not show it.
func (e ending) noteAnswer(outcome *plugin.Outcome) {
	share := slots.ShareOf(e.tenure.View())
	switch {
	case slices.ContainsFunc(outcome.Errors, func(e plugin.Error) bool { return e.TargetSilent }):
		e.Slots.SetAnswered(share, false)
	case outcome.Succeeded != nil || outcome.InProgress != nil:
		e.Slots.SetAnswered(share, true)
	}
}

const reasonSucceeded = "Succeeded"

// failRefused ends the job because the API server refuses the status of the plugin, as it would after another call:
// otherwise the write would be tried for ever. The last saved provider status stays.
func (e ending) failRefused(ctx context.Context, refused *itemclient.RefusedError) error {
	e.log.Warn("the API server refuses the status of the plugin", "error", refused.Error())
	return e.with(nil).handleError(ctx, joberror.Refused(e.Plugin.Name(), refused))
}

// afterMove returns the outcome for the job after a step of the move of the item, and the change of the item by it.
func (e ending) afterMove(ctx context.Context, outcome *plugin.Outcome) (*plugin.Outcome, tenure.Change, error) {
	if e.decision.Action == contract.Abort {
		return outcome, func(*v1alpha1.DeployItem) {}, nil
	}
	after, step := move.After(e.moving, e.tenure.View(), outcome, e.Standalone, e.Clock.Now())
	if step.From != "" { // a wrong name is an error before the move begins
		if _, err := e.Targets.Named(ctx, e.key.Namespace, step.From); err != nil {
			return nil, nil, joberror.FromOther(err)
		}
	}
	return after, step.Change, nil
}

// writeOutcome writes an outcome, and the change by a move.
func (e ending) writeOutcome(ctx context.Context, outcome *plugin.Outcome, moved tenure.Change) error {
	e = e.with(func(item *v1alpha1.DeployItem) {
		move.Save(e.moving, outcome.ProviderStatus)(item)
		contract.SetReported(item, outcome.Conditions, e.Clock.Now())
		moved(item)
		if e.decision.Force && !e.moving.Removes() && outcome.InProgress != nil {
			contract.NoteForced(item, e.Clock.Now())
		}
	})
	switch {
	case outcome.Succeeded != nil && e.decision.Action == contract.Abort:
		return e.fail(ctx, contract.AbortedError(""))
	case outcome.Succeeded != nil && e.decision.Deletion:
		return e.finishDeletion(ctx)
	case outcome.Succeeded != nil:
		return e.succeed(ctx, outcome.Succeeded.Exports)
	case outcome.InProgress != nil:
		e.result.Retries = 0
		e.runAfter(outcome.InProgress.PollAfter)
		e.log.Debug("job waits", "for", outcome.InProgress.WaitingFor)
		return e.wait(ctx, outcome.InProgress.WaitingFor)
	case ctx.Err() != nil: // the plugin failed because it was asked to stop
		return errors.Join(ctx.Err(), e.write(ctx, func(*v1alpha1.DeployItem) {}))
	default:
		return e.handleErrors(ctx, outcome.Errors)
	}
}

// succeed writes the exports, and then phase and jobIDFinished in one write.
func (e ending) succeed(ctx context.Context, values []byte) error {
	if e.tenure.IsLost() {
		return itemclient.ErrOutdated
	}
	// A Landscaper may still read the former exports.
	removes := values == nil && e.Standalone && e.tenure.View().Status.ExportReference != nil
	if (values != nil || removes) && e.tenure.IsPending() { // the Secret must not change before the pick-up
		if err := e.write(ctx, contract.Progress); err != nil {
			return err
		}
	}
	var ref *v1alpha1.ObjectReference
	var err error
	if removes {
		err = e.Exports.Remove(ctx, e.tenure.View(), e.tenure.Lock.Verify)
	} else {
		ref, err = e.Exports.Write(ctx, e.tenure.View(), values, e.tenure.Lock.Verify)
	}
	if errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	}
	if err != nil {
		return e.handleError(ctx, joberror.FromHost("WriteExports", err))
	}
	err = e.write(ctx, func(item *v1alpha1.DeployItem) {
		if ref != nil || removes {
			item.Status.ExportReference = ref
		}
		contract.SucceedWith(item, e.call.conditions, e.Clock.Now())
	})
	if err != nil {
		return err
	}
	status := e.tenure.View().Status
	e.reportEnded(ctx, status.Phase)
	e.log.Info("job succeeded")
	changed := e.before == nil || !reflect.DeepEqual(e.before.ProviderStatus, status.ProviderStatus)
	if changed && !e.call.told {
		e.event(corev1.EventTypeNormal, reasonSucceeded, "the job "+status.JobID+" succeeded")
	}
	return nil
}

// keepProviderStatus writes the provider status of a discarded outcome, unless another one was written meanwhile: it
// may name objects of the plugin for the next call.
func (w *work) keepProviderStatus(ctx context.Context, outcome *plugin.Outcome) {
	if outcome == nil || outcome.ProviderStatus == nil || w.tenure.IsPending() { // or it has created nothing
		return
	}
	if err := w.tenure.Keep(ctx, move.Save(w.moving, outcome.ProviderStatus)); err != nil {
		w.log.Warn("the provider status of a discarded outcome could not be written", "error", err.Error())
	}
}
