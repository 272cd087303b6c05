package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

const reasonIntervalRaised = "ReconcileIntervalRaised"

// shouldReconcile runs the ShouldReconcile hooks. They can request a job for an idle item, and cannot stop a job. It
// notes in known when they want the item to be reconciled again.
func (p *hookRun) shouldReconcile(
	ctx context.Context, known *itemstate.Hooks, decision contract.Decision,
) (contract.Decision, error) {
	now := p.clock.Now()
	if !now.Before(known.Again) {
		known.Again = time.Time{}
	}
	paused := rules(p.options, p.clock).Paused(p.item)
	if !p.hooks.Has(sdkhook.ShouldReconcile) || paused && decision.Action == contract.Nothing {
		return decision, nil
	}
	result, _, err := p.hooks.Run(ctx, sdkhook.ShouldReconcile, p.item, p.target)
	var failed contract.Error
	switch {
	case errors.As(err, &failed) && failed.Final() && decision.Action == contract.Nothing:
		p.reportError(p.item, err) // another try makes no sense before the item changes
	case errors.Is(err, plugin.ErrCrashed): // it is counted, whatever there is to do
		return decision, err
	case err != nil && ctx.Err() == nil && decision.Action != contract.Nothing:
		// They could not stop the job either. The error is reported once, and not with each poll.
		if decision.Action != contract.Continue {
			p.reportError(p.item, err)
		}
		return decision, nil
	case err != nil:
		return decision, err
	}
	switch {
	case decision.Action != contract.Nothing:
		p.add(sdkhook.ShouldReconcile, result)
	case result != nil && !result.AbortReconcile:
		decision.Action, known.Again = p.enforce(known)
		decision.ByHook = decision.Action == contract.Start
	default:
		p.plan(known, result)
	}
	return decision, nil
}

// enforce decides whether to start the job requested by hooks now, or when to run them again.
func (p *hookRun) enforce(known *itemstate.Hooks) (contract.Action, time.Time) {
	now, offset := p.clock.Now(), offset(p.item, p.options.Jitter)
	if earliest := p.earliest(); now.Before(earliest) {
		known.Begins = earliest.Add(offset)
		p.reportRaised(known)
		return contract.Nothing, known.Begins
	}
	if offset > 0 && (known.Begins.IsZero() || now.Before(known.Begins)) {
		known.Begins = earlier(known.Begins, now.Add(offset))
		return contract.Nothing, known.Begins
	}
	known.Begins = time.Time{}
	return contract.Start, time.Time{}
}

// plan notes the next run of hooks without a request for a job.
func (p *hookRun) plan(known *itemstate.Hooks, result *sdkhook.Result) {
	if result == nil || result.RequeueAfter <= 0 || result.Requeue {
		p.add(sdkhook.ShouldReconcile, result)
		return
	}
	due, earliest := p.clock.Now().Add(result.RequeueAfter), p.earliest()
	raised := due.Before(earliest)
	if raised {
		due = earliest
	}
	known.Begins = due.Add(offset(p.item, p.options.Jitter))
	known.Again = known.Begins
	if raised {
		p.reportRaised(known)
	}
}

// earliest is the earliest time for the next job by hooks.
func (p *hookRun) earliest() time.Time {
	if last := p.item.Status.LastReconcileTime; last != nil {
		return last.Add(p.options.MinimumInterval)
	}
	return time.Time{}
}

// reportRaised reports to the user, once for each generation of an item, that hooks request jobs too often.
func (p *hookRun) reportRaised(known *itemstate.Hooks) {
	if known.Raised == p.item.Generation {
		return
	}
	known.Raised = p.item.Generation
	if !p.isPreferred(p.item) { // one replica is enough
		return
	}
	p.recorder.Record(p.item, corev1.EventTypeWarning, reasonIntervalRaised, fmt.Sprintf(
		"the schedule asks for the next job earlier than %s after the last, which is the least that the host configuration "+
			"allows (continuousReconcile.minimumInterval); it begins at %s",
		p.options.MinimumInterval, known.Begins.UTC().Format(time.RFC3339)))
}

// offset is the delay of an item's jobs by hooks, up to jitter. It is constant, and the same in all replicas.
func offset(item *v1alpha1.DeployItem, jitter time.Duration) time.Duration {
	if jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(item.UID))                 // it never fails
	return time.Duration(h.Sum64() % uint64(jitter)) //nolint:gosec // it is less than jitter
}
