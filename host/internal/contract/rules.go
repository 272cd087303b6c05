package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Rules decide as Decide does, for one host.
type Rules struct {
	// Standalone: there is no Landscaper. A job that has failed because something was missing is to be restarted, and
	// not only a deletion: Landscaper would set the next job.
	Standalone bool
	// Now is the clock. Required.
	Now func() time.Time
}

// Decide returns the next action for an item.
func (r Rules) Decide(item *v1alpha1.DeployItem) Decision {
	d := Decide(item, r.Now())
	if d.Action == Nothing && r.Standalone && FailedForMissingReference(item) && !r.Paused(item) {
		d.Action = Restart
	}
	return d
}

// Paused reports whether no job of an item starts by itself.
func (r Rules) Paused(item *v1alpha1.DeployItem) bool {
	return r.Standalone && item.DeletionTimestamp == nil && IsPaused(item)
}

// NeedsNothing reports whether an item needs nothing before it changes, except hooks.
func (r Rules) NeedsNothing(item *v1alpha1.DeployItem) bool {
	return r.Decide(item).Action == Nothing && UnknownOperation(item) == ""
}
