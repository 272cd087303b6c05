package job

import (
	"context"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// slotPoll is the pause of a job in wait for a slot if nothing wakes it earlier.
	slotPoll = time.Minute
	// queuedAfter is the age of a job when it is picked up as queued. It is far less than the five minutes of
	// Landscaper's timeout for a pick-up, and most jobs get a slot before.
	queuedAfter = 30 * time.Second
)

// slotPhase gets a slot for a job, or queues the job for one.
type slotPhase struct {
	*pickUpPhase
}

// acquire takes a slot.
func (p slotPhase) acquire() bool {
	class := slots.Running
	if !p.begun() {
		class = slots.ClassOf(p.Locks.Rank(p.lockKey()), contract.IsTry(p.tenure.View()))
	}
	if !p.Slots.Acquire(p.key, p.share(), class) {
		return false
	}
	telemetry.LogWorkers(p.Log, p.Plugin.Name(), p.Slots.Used(), p.Slots.Size())
	return true
}

// share is the share of the slots for the job.
func (p slotPhase) share() slots.Share {
	item := p.tenure.View()
	if contract.IsPoison(item) {
		return slots.Poison
	}
	return slots.ShareOf(item)
}

// wait has the job run again when a slot is reserved for it. After a while a new job is picked up as queued, so that
// Landscaper does not time it out; its time begins when it has a slot.
func (p slotPhase) wait(ctx context.Context) error {
	if p.begun() {
		p.runAfter(slotPoll)
		return nil
	}
	now, item := p.Clock.Now(), p.tenure.View()
	p.result.Due = now.Add(slotPoll)
	silent := p.Slots.IsSilent(p.share())
	if p.queued() && !silent {
		return nil
	}
	if p.result.Since.IsZero() {
		p.result.Since = now
	}
	if set := item.Status.JobIDGenerationTime; p.decided.Action == contract.PickUp && set != nil {
		since := p.result.Since
		if set.Time.Before(since) { // Landscaper's clock may be ahead
			since = set.Time
		}
		if now.Sub(since) < queuedAfter {
			p.result.Due = since.Add(queuedAfter)
			return nil
		}
	}
	if !silent {
		return p.pickUp(ctx, contract.Enqueue(p.queuedFor()))
	}
	// The target is the item's own: the job's time goes on.
	p.plan(contract.Begin)
	p.runAfter(slotPoll)
	return p.tenure.WriteOnce(ctx, func(item *v1alpha1.DeployItem) {
		contract.Wait(item, fmt.Sprintf("the Target %q to answer; until it does, one job at a time tries it",
			slots.ShareOf(item).Target), now)
	})
}

// queuedFor is what a queued job waits for.
func (p slotPhase) queuedFor() string {
	share := p.share()
	if share == slots.Poison {
		return fmt.Sprintf("its turn: jobs during which the plugin %q has crashed run one at a time", p.Plugin.Name())
	}
	given, ofNamespace := p.Slots.Given(share.Namespace)
	return fmt.Sprintf("a free worker of the plugin %q: %d of %d are taken, %d of them by this namespace; one Target has "+
		"%d at most", p.Plugin.Name(), given, p.Slots.Size(), ofNamespace, p.Slots.MaxOf(share))
}
