package standalone

import (
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
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
	// needRepaired: the last job failed, and an object that the item uses has changed since.
	needRepaired need = "try after a repair"
	// needComparison: it is time to compare the deployed objects with the item.
	needComparison need = "comparison"
	// needPickupTimeout: the job is to be ended because it was not picked up in time.
	needPickupTimeout need = "pickup timeout"
	// needProgressingTimeout: the job is to be ended because its deployer is dead.
	needProgressingTimeout need = "progressing timeout"
	// needNotes: the annotations or the conditions of standalone mode are outdated.
	needNotes need = "notes"
	// needRelease: the item is being deleted without its deployed objects, and has no plugin to do so.
	needRelease need = "release"
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
	// compare: it is time for a job without a schedule of the item.
	compare bool
}

// decide returns the need of an item.
func decide(item *v1alpha1.DeployItem, k known, o Options, now time.Time) decision {
	paused := contract.IsPaused(item) && item.DeletionTimestamp == nil
	if !contract.Finished(item) {
		return decideRunning(item, k, paused, o, now)
	}
	next, fails := o.Pauses.NextTry(item)
	switch {
	case paused:
		return decision{need: needNothing}
	case needsJob(item):
		return decision{need: needJob, again: o.pickup()}
	case k.repaired && contract.Failed(item):
		return decision{need: needRepaired, again: o.pickup()}
	case fails && now.Before(next.At):
		return decision{need: needNothing, again: next.At.Sub(now)}
	case fails:
		return decision{need: needTry, again: o.pickup()}
	case !k.compare || !isCompared(item):
		return decision{need: needNothing}
	default:
		return decision{need: needComparison, again: o.pickup()}
	}
}

// isCompared reports whether an item takes part in the comparison at an interval: it was deployed, and neither
// schedules its jobs itself nor rules out jobs without a change.
func isCompared(item *v1alpha1.DeployItem) bool {
	return item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded && item.DeletionTimestamp == nil &&
		!item.Spec.UpdateOnChangeOnly && !itemcache.HasSchedule(item.Spec.Config)
}

// nextComparison is the first time after now at which an item is compared. Each item has its own part of the interval.
func nextComparison(uid types.UID, interval time.Duration, now time.Time) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))                           // it never fails
	offset := time.Duration(h.Sum64() % uint64(interval)) //nolint:gosec // it is less than the interval
	next := now.Truncate(interval).Add(offset)
	if !next.After(now) {
		next = next.Add(interval)
	}
	return next
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
