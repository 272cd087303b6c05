package plugin

import (
	"sync"
	"time"
)

// calls are the running calls of one process.
type calls struct {
	mu      sync.Mutex
	running map[*conversation]bool
}

func newCalls() *calls { return &calls{running: map[*conversation]bool{}} }

func (c *calls) add(conversation *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[conversation] = true
}

func (c *calls) remove(conversation *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, conversation)
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running)
}

// silent returns a call in which the plugin has said nothing for so long; nil if there is none.
func (c *calls) silent(limit time.Duration) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conversation := range c.running {
		if conversation.silence() >= limit {
			return conversation
		}
	}
	return nil
}
