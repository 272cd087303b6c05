package standalone

import (
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// need is what an item needs of the side that sets jobs.
type need string

const (
	// needNothing: the last job was for the item as it is, or is still under way.
	needNothing need = "nothing"
	// needJob: the item needs a job and can have one.
	needJob need = "job"
	// needPickupTimeout: the job is to be ended because it was not picked up in time.
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
