package job

import (
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// grain is what the times in a status may be early by.
const grain = time.Second

// need is what an item needs of the side that sets jobs.
type need string

const (
	// needNothing: the last job was for the item as it is.
	needNothing need = "nothing"
	// needJob: the item needs a job and can have one.
	needJob need = "job"
	// needPatience: the item needs a job when the one under way has ended.
	needPatience need = "patience"
	// needPickupTimeout: the job is to be ended because nobody has picked it up.
	needPickupTimeout need = "pickup timeout"
	// needProgressingTimeout: the job is to be ended because its deployer is dead.
	needProgressingTimeout need = "progressing timeout"
)

// verdict is what an item needs now, and when it may need something else.
type verdict struct {
	need need
	// again is when the item needs another look, if nothing happens to it until then; zero for never.
	again time.Duration
}

// known is what the setter knows of an item beside the item itself.
type known struct {
	// served is since when a plugin serves its type; zero for always.
	served time.Time
	// changed is when its spec was seen to have changed while its job was waiting for a deployer; zero for never.
	changed time.Time
}

// decide tells what an item needs. The deployer notes the generation that it has picked a job up for; a deletion raises the
// generation as a change of the spec does.
func decide(item *v1alpha1.DeployItem, k known, o Options, now time.Time) verdict {
	changed := item.Generation != item.Status.ObservedGeneration
	if item.Status.JobID == item.Status.JobIDFinished {
		if item.Status.JobID == "" || changed {
			return verdict{need: needJob, again: o.pickup()}
		}
		return verdict{need: needNothing}
	}
	v := verdict{need: needNothing}
	if changed || item.Status.JobID == "" {
		v.need = needPatience
	}
	at, timeout := due(item, k, o)
	if at.IsZero() {
		return v
	}
	if now.Before(at) {
		v.again = at.Sub(now)
		return v
	}
	return verdict{need: timeout}
}

// due is when the job of an item is to be ended, and why; zero for never.
func due(item *v1alpha1.DeployItem, k known, o Options) (time.Time, need) {
	set := jobSet(&item.Status)
	switch {
	case set.IsZero():
		return time.Time{}, needNothing
	case !pickedUp(&item.Status, set):
		if o.PickupTimeout <= 0 {
			return time.Time{}, needNothing
		}
		return latest(set.Time, k.served, k.changed).Add(o.pickup()), needPickupTimeout
	case o.ProgressingTimeout <= 0:
		return time.Time{}, needNothing
	}
	deadline, err := contract.Deadline(item)
	if err != nil || deadline.IsZero() { // the deployer says what is wrong with a malformed timeout
		return time.Time{}, needNothing
	}
	return latest(deadline, k.served).Add(o.ProgressingTimeout), needProgressingTimeout
}

// jobSet is when the job was set; nil or zero if that is not known.
func jobSet(status *v1alpha1.DeployItemStatus) *v1alpha1.Time {
	if status.JobIDGenerationTime.IsZero() && status.TransitionTimes != nil {
		return status.TransitionTimes.TriggerTime
	}
	return status.JobIDGenerationTime
}

// pickedUp tells whether a deployer has picked up the job that was set at a time. That is Landscaper's rule, and one more
// condition: of two jobs within one second the times tell nothing, but a deployer sets the phase when it picks one up.
func pickedUp(status *v1alpha1.DeployItemStatus, set *v1alpha1.Time) bool {
	return status.Phase != "" && !status.Phase.IsFinal() &&
		!status.LastReconcileTime.IsZero() && !status.LastReconcileTime.Before(set)
}

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
