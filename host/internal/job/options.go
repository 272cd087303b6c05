package job

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Options are the settings of a Setter.
type Options struct {
	// PickupTimeout is how long a job may wait for a deployer that picks it up. Zero switches the timeout off.
	PickupTimeout time.Duration
	// ProgressingTimeout is how long after its deadline a job that was picked up is left to its deployer, which counts as dead
	// then. Zero switches the timeout off.
	ProgressingTimeout time.Duration
	// Elected tells whether this replica is the one to set jobs for the items of a type, and to end them; nil for a host without
	// replicas. Two of them for a moment do no harm, as every write is conditional. Setter.ReplicasChanged tells that the answer may
	// be another one now.
	Elected func(itemType v1alpha1.DeployItemType) bool
	// Unserved says of a type that nobody serves, and what is served instead; empty for a type that is served, and as
	// long as that is not known. Setter.Served tells that the answer may be another one now. Nil if it is never known.
	Unserved func(itemType v1alpha1.DeployItemType) string
	// UnservedGrace is how long an item of a type that nobody here serves is left to others before it says so: another
	// installation may serve it, or a replica that starts. Zero for no time.
	UnservedGrace time.Duration
	// Surveyed: somebody lists all items at the start and has Setter.Surveyed and Setter.SurveyEnded told of it. What was there at
	// the start waits for the end, so that only the items that need something are read one by one.
	Surveyed bool
}

// elected tells whether the items of a type are a matter of this replica.
func (o Options) elected(itemType v1alpha1.DeployItemType) bool {
	return o.Elected == nil || o.Elected(itemType)
}

// unserved is Unserved.
func (o Options) unserved(itemType v1alpha1.DeployItemType) string {
	if o.Unserved == nil {
		return ""
	}
	return o.Unserved(itemType)
}

// pickup is how long after it was set a job has to be picked up; zero for no such limit.
func (o Options) pickup() time.Duration {
	if o.PickupTimeout <= 0 {
		return 0
	}
	return o.PickupTimeout + grain
}

// settle is how long after a write to its status an item needs a look, if that write has set a job or picked one up; zero for
// never. All writes of this time have the one look.
func (o Options) settle() time.Duration {
	if o.PickupTimeout <= 0 && o.ProgressingTimeout > 0 {
		return o.ProgressingTimeout + grain
	}
	return o.pickup()
}
