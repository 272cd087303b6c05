package standalone

import (
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// resolution is that of the times in a status, which are cut off to it.
const resolution = time.Second

// need is what an item needs of the side that sets jobs.
type need string

const (
	// needNothing: the last job was for the item as it is, or is still under way.
	needNothing need = "nothing"
	// needJob: the item needs a job and can have one.
	needJob need = "job"
	// needPickupTimeout: the job is to be ended because nobody has picked it up.
	needPickupTimeout need = "pickup timeout"
	// needProgressingTimeout: the job is to be ended because its deployer is dead.
	needProgressingTimeout need = "progressing timeout"
	// needNotes: the annotations or the condition Served are outdated.
	needNotes need = "notes"
	// needUnserved: the status is to say that no plugin serves the type.
	needUnserved need = "unserved"
)

// decision is what an item needs now, and when it may need something else.
type decision struct {
	need need
	// again is when the item is to be reconciled again, if nothing happens to it until then; zero for never.
	again time.Duration
}

// known is what the setter knows of an item beside the item itself.
type known struct {
	// served is since when a plugin serves its type; zero for always.
	served time.Time
	// changed is when its spec was seen to have changed; zero for never.
	changed time.Time
}

// decide returns what an item needs.
func decide(item *v1alpha1.DeployItem, k known, o Options, now time.Time) decision {
	if contract.Finished(item) {
		if needsJob(item) {
			return decision{need: needJob, again: o.pickup()}
		}
		return decision{need: needNothing}
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

// needsJob reports whether an item needs a job, now or when the one under way has ended. The deployer notes the
// generation that it has picked a job up for; a deletion raises the generation as a change of the spec does.
func needsJob(item *v1alpha1.DeployItem) bool {
	return item.Generation != item.Status.ObservedGeneration || item.Status.JobID == ""
}

// due is when the job of an item is to be ended, and why; zero for never.
func due(item *v1alpha1.DeployItem, k known, o Options) (time.Time, need) {
	set, pickedUp := item.Status.JobIDGenerationTime, contract.PickedUp(item)
	switch {
	case set.IsZero():
	case !pickedUp && o.PickupTimeout > 0:
		return latest(set.Time, k.served, k.changed).Add(o.pickup()), needPickupTimeout
	case pickedUp && o.ProgressingTimeout > 0:
		deadline, err := contract.Deadline(item)
		if err == nil && !deadline.IsZero() { // the deployer says what is wrong with a malformed timeout
			return latest(deadline, k.served).Add(o.ProgressingTimeout), needProgressingTimeout
		}
	}
	return time.Time{}, needNothing
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// pickup is how long after it was set a job has to be picked up; zero for no such limit.
func (o Options) pickup() time.Duration {
	if o.PickupTimeout <= 0 {
		return 0
	}
	return o.PickupTimeout + resolution
}
