package job

import "time"

// Options are the settings of a Setter.
type Options struct {
	// PickupTimeout is how long a job may wait for a deployer that picks it up. Zero switches the timeout off.
	PickupTimeout time.Duration
	// ProgressingTimeout is how long after its deadline a job that was picked up is left to its deployer, which counts as dead
	// then. Zero switches the timeout off.
	ProgressingTimeout time.Duration
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
