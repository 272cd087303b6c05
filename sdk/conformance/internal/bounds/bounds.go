// Package bounds has the times and sizes of the checks.
package bounds

import "time"

// Limits bound the times of a plugin.
type Limits struct {
	// Answer bounds answers to simple questions.
	Answer time.Duration
	// Probe bounds the handshake, and a call for an item without a provider configuration.
	Probe time.Duration
	// End bounds the end of a process after the request.
	End time.Duration
	// Silence bounds the time without a message. It is more than in the protocol, for the sake of slow machines.
	Silence time.Duration
	// Pause is the time to watch for something forbidden, and the time until a silent call is cut short.
	Pause time.Duration
	// Large is close to the largest size of a message.
	Large int
}

// Usual returns the limits of a check.
func Usual() Limits {
	return Limits{
		Answer: 10 * time.Second, Probe: 30 * time.Second, End: 10 * time.Second, Silence: 20 * time.Second,
		Pause: 300 * time.Millisecond, Large: 60 << 20,
	}
}
