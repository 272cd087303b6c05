package statuspage

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// statusAge is how old what is shown may be: however many look, and however often, it costs the host no more than that.
const statusAge = time.Second

// cached makes something at most once in a time. Who asks while it is made waits for it.
type cached[T any] struct {
	age   time.Duration
	clock clock.PassiveClock
	make  func() T

	mu    sync.Mutex
	value T
	made  time.Time
}

func (c *cached[T]) get() T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); c.made.IsZero() || now.Sub(c.made) >= c.age {
		c.value, c.made = c.make(), now
	}
	return c.value
}

// newStatus returns what is shown, which nobody may change.
func newStatus(sources Sources) *cached[*Status] {
	return &cached[*Status]{age: statusAge, clock: sources.Clock, make: sources.status}
}
