// Package bounds has the times and sizes of the checks.
package bounds

import (
	"cmp"
	"fmt"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

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

// Job returns the time of a job: of the item, or else of the plugin for the type, or else one minute.
func Job(item *v1alpha1.DeployItem, info *deployerv1.GetInfoResponse) (time.Duration, error) {
	own, _, err := cmp.Or(item.Spec.Timeout, v1alpha1.NoDuration).Parse() // zero without a limit
	if err != nil {
		return 0, fmt.Errorf("spec.timeout: %w", err)
	}
	return cmp.Or(own, info.GetTimeouts()[string(item.Spec.Type)].AsDuration(), time.Minute), nil
}
