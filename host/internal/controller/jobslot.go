package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// slotPoll is how long a job waits for a slot if nothing wakes it earlier.
	slotPoll = time.Minute
	// queuedAfter is how old a job is that is picked up as queued. It is far less than the five minutes after which
	// Landscaper fails a job that nobody has picked up, and most jobs get a slot before.
	queuedAfter = 30 * time.Second
)

// slotClass is the class in which the job gets a slot.
func (j *job) slotClass() slots.Class {
	if j.begun() {
		return slots.Running
	}
	return slots.ClassOf(j.r.locks.Rank(j.r.lockKey(j.item)))
}

// slotShare is the share of which the job gets a slot.
func (j *job) slotShare() slots.Share {
	if contract.IsPoison(j.item) {
		return slots.Poison
	}
	return shareOf(j.item)
}

// waitForSlot has the job reconciled again when a slot is reserved for it. Landscaper fails a job that nobody picks up,
// so a new job is picked up as queued when it has waited for a while; its time begins when it has a slot.
func (j *job) waitForSlot(ctx context.Context) error {
	j.known.due = j.r.clock.Now().Add(slotPoll)
	if j.begun() {
		j.known.due = j.r.clock.Now().Add(j.pollInterval(slotPoll))
		return nil
	}
	silent := j.r.slots.IsSilent(j.slotShare())
	if j.queued() && !silent {
		return nil
	}
	now, set := j.r.clock.Now(), j.item.Status.JobIDGenerationTime
	if j.known.since.IsZero() {
		j.known.since = now
	}
	// Landscaper's clock may be ahead.
	if j.decision.Action == contract.PickUp && set != nil && now.Sub(earlier(set.Time, j.known.since)) < queuedAfter {
		j.known.due = earlier(set.Time, j.known.since).Add(queuedAfter)
		return nil
	}
	if !silent {
		return j.pickUp(ctx, contract.Enqueue(j.queuedFor()))
	}
	j.begin(contract.Begin) // the target is the item's own, so that the job's time goes on
	j.known.due = now.Add(j.pollInterval(slotPoll))
	return j.changeStatus(ctx, func(item *v1alpha1.DeployItem) { // there is no lock yet
		contract.Wait(item, fmt.Sprintf("the Target %q to answer; until it does, one job at a time tries it",
			shareOf(j.item).Target), now)
	})
}

// queuedFor is what a job that is queued waits for.
func (j *job) queuedFor() string {
	if j.slotShare() == slots.Poison {
		return fmt.Sprintf("its turn: jobs during which the plugin %q has crashed run one at a time", j.r.name)
	}
	given, ofNamespace := j.r.slots.Given(j.item.Namespace)
	return fmt.Sprintf("a free worker of the plugin %q: %d of %d are taken, %d of them by this namespace; one Target has %d at "+
		"most", j.r.name, given, j.r.slots.Size(), ofNamespace, j.r.slots.MaxOfTarget())
}

// queued reports whether the job was picked up as queued, and has had no slot since.
func (j *job) queued() bool {
	return contract.IsQueued(j.item) && j.decision.Action == contract.PickUp
}
