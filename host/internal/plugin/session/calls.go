package session

import "sync"

// calls are the running calls of one process.
type calls struct {
	mu      sync.Mutex
	running map[*conversation]bool
}

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

// silent is called at each health check, and returns a call in which the plugin was silent during so many of them; nil
// for none. A suspended host hears nothing either, so it counts checks and not time.
func (c *calls) silent(checks int) (silent *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conversation := range c.running {
		if conversation.silence.check() >= checks {
			silent = conversation
		}
	}
	return silent
}
