package job

import (
	"context"
	"errors"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/tenure"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// pickUpPhase picks up a new job, or takes over one of another replica.
type pickUpPhase struct {
	*work
	// decided is the decision before the pick-up.
	decided contract.Decision
}

// run picks the job up, or has a later write do so.
func (p *pickUpPhase) run(ctx context.Context) error {
	switch {
	case p.begun():
		return p.takeOver(ctx)
	case p.canBeLater():
		p.plan(contract.Begin)
		p.observe(ctx)
		return nil
	default:
		return p.pickUp(ctx, contract.Begin)
	}
}

// begun reports whether the job was picked up and has had a slot.
func (p *pickUpPhase) begun() bool {
	return p.decided.Action == contract.Continue || p.decided.Action == contract.Abort
}

// queued reports whether the job was picked up as queued, and has had no slot since.
func (p *pickUpPhase) queued() bool {
	return p.decided.Action == contract.PickUp && contract.IsQueued(p.tenure.View())
}

// canBeLater reports whether nothing changes anywhere before the plugin saves its provider status: then one write can
// do both.
func (p *pickUpPhase) canBeLater() bool {
	if !p.Plugin.Info().Capabilities.LatePickUp || !p.deploys() ||
		p.hooks.Has(sdkhook.BeforeAnyReconcile, p.beforeType()) ||
		// The status must name the host before it adds the finalizer: the Target may go.
		!p.hasFinalizer() && p.Selective {
		return false
	}
	found, err := p.httpHook(v1alpha1.HookPreReconcile)
	return found == nil && err == nil
}

// begin is contract.Begin, or a result of contract.Enqueue.
type begin = func(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time)

// pickUp picks the job up by one conditional write, together with a job of the host. It fences off others, because
// nothing is changed anywhere before it.
func (p *pickUpPhase) pickUp(ctx context.Context, b begin) error {
	p.plan(b)
	return p.tenure.WriteOnce(ctx, func(*v1alpha1.DeployItem) {})
}

// plan has the next write of the status pick the job up.
func (p *pickUpPhase) plan(b begin) {
	item, now, queuedSince := p.tenure.View(), p.Clock.Now(), p.queuedSince()
	if item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded && item.Status.ObservedGeneration == item.Generation {
		before := item.Status
		p.before = &before
	}
	deployer, set := p.deployer(), p.setJob(now)
	p.tenure.PickUpWith(&tenure.PickUp{
		Begin: func(item *v1alpha1.DeployItem) {
			set(item)
			b(item, p.decision.Deletion, deployer, now)
			contract.LimitTime(item, p.Plugin.Info().Limits.Timeouts[item.Spec.Type], p.DefaultTimeout, now)
		},
		Done: func(ctx context.Context, item *v1alpha1.DeployItem) {
			p.log.Info("picked up job", "deletion", p.decision.Deletion, "force", p.decision.Force,
				"queued", contract.IsQueued(item))
			p.reportPickedUp(ctx, item, queuedSince)
		},
	})
	p.result.Since, p.result.Retries, p.result.Validated = now, 0, 0
	p.log = p.logOf(p.tenure.View())
}

// setJob returns the change that sets the job if there is none yet.
func (p *pickUpPhase) setJob(now time.Time) tenure.Change {
	if p.decided.Action != contract.Start {
		return func(*v1alpha1.DeployItem) {}
	}
	set, jobID := contract.SetJob, p.decided.JobID
	if p.decided.ByHook {
		set = contract.SetJobOfHook
	}
	if jobID == "" {
		jobID = p.NewJobID()
	}
	return func(item *v1alpha1.DeployItem) { set(item, jobID, now) }
}

// takeOver makes a running job this replica's by one conditional write, if another replica or another host may have
// worked on it: with the lock, or with responsibility for the item. Their writes conflict with this one, and they
// cancel their calls.
func (p *pickUpPhase) takeOver(ctx context.Context) error {
	before := p.tenure.View().Status.Deployer.Identity
	if p.tenure.Lock.Fenced() && (!p.Selective || before == p.Identity) {
		return nil
	}
	err := p.tenure.WriteOnce(ctx, func(item *v1alpha1.DeployItem) {
		contract.TakeOver(item, p.deployer(), p.Clock.Now())
	})
	if err != nil {
		return err
	}
	p.tenure.Lock.SetFenced()
	p.log.Info("took job over", "before", before, "holder", p.tenure.Lock.Before())
	telemetry.Report(ctx, telemetry.TakenOver{})
	return nil
}

// queuedSince is the time when the job was queued for a slot; zero if it was not.
func (p *pickUpPhase) queuedSince() time.Time {
	times := p.tenure.View().Status.TransitionTimes
	switch {
	case !p.queued():
		return time.Time{}
	case p.result.Since.IsZero() && times != nil && times.InitTime != nil:
		return times.InitTime.Time
	default:
		return p.result.Since
	}
}

// pickUpAfter picks the job up after an error of the API server: the job's time runs although nothing could be done.
func (w *work) pickUpAfter(ctx context.Context, err error) error {
	if !w.tenure.IsPending() || errors.Is(err, itemclient.ErrOutdated) {
		return err
	}
	return errors.Join(err, w.tenure.Write(ctx, func(*v1alpha1.DeployItem) {}))
}
