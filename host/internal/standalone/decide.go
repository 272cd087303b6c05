package standalone

import (
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// need is the next step of the Setter for an item.
type need string

const (
	// needNothing: the last job was for the current item, or is still under way.
	needNothing need = "nothing"
	// needJob: the item needs a job and can have one.
	needJob need = "job"
	// needTry: the last job failed, and it is time for another try.
	needTry need = "try"
	// needPickupTimeout: the job is to be ended because it was not picked up in time.
	needPickupTimeout need = "pickup timeout"
	// needProgressingTimeout: the job is to be ended because its deployer is dead.
	needProgressingTimeout need = "progressing timeout"
	// needNotes: the annotations or the conditions Served and Paused are outdated.
	needNotes need = "notes"
	// needUnserved: the status is to report a type without a plugin.
	needUnserved need = "unserved"
)

// decision is the need of an item now, and the time of its next check.
type decision struct {
	need need
	// again is the delay until the next reconcile of an item without a change; zero for never.
	again time.Duration
}

// known is the memory of an item for a decision.
type known struct {
	// served is the time of the first plugin for its type; zero for always.
	served time.Time
	// changed is the time of the first sight of a changed spec; zero for never.
	changed time.Time
	// repaired: an object that the item uses has changed since its last job was set.
	repaired bool
}

// decide returns the need of an item.
func decide(item *v1alpha1.DeployItem, k known, o Options, now time.Time) decision {
	paused := contract.IsPaused(item) && item.DeletionTimestamp == nil
	if !contract.Finished(item) {
		return decideRunning(item, k, paused, o, now)
	}
	at, _ := o.Pauses.NextTry(item)
	switch {
	case paused:
		return decision{need: needNothing}
	case needsJob(item), k.repaired && contract.Failed(item):
		return decision{need: needJob, again: o.pickup()}
	case at.IsZero():
		return decision{need: needNothing}
	case now.Before(at):
		return decision{need: needNothing, again: at.Sub(now)}
	default:
		return decision{need: needTry, again: o.pickup()}
	}
}

// decideRunning is decide for an item with a job.
func decideRunning(item *v1alpha1.DeployItem, k known, paused bool, o Options, now time.Time) decision {
	// The job of an earlier spec gives way to one with its own time. A queued job has not begun, and takes the new spec.
	if contract.IsUnderWay(item) && !contract.IsQueued(item) && needsJob(item) && !paused {
		return decision{need: needJob, again: o.pickup()}
	}
	switch at, timeout := due(item, k, o); {
	case at.IsZero():
		return decision{need: needNothing}
	case now.Before(at):
		return decision{need: needNothing, again: at.Sub(now)}
	default:
		return decision{need: timeout}
	}
}

// needsJob reports whether an item needs a job, now or after the current one. The deployer notes the generation at the
// pick-up; a deletion raises the generation like a change of the spec.
func needsJob(item *v1alpha1.DeployItem) bool {
	return item.Generation != item.Status.ObservedGeneration || item.Status.JobID == ""
}
