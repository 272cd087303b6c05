package plugin

import (
	"context"
	"sync"
	"time"
)

// calls are the calls of one process that are under way.
type calls struct {
	mu     sync.Mutex
	closed bool
	open   map[*conversation]context.CancelCauseFunc
	idle   chan struct{} // closed when there are none and none may come
}

func newCalls() *calls {
	return &calls{open: map[*conversation]context.CancelCauseFunc{}, idle: make(chan struct{})}
}

// add notes a call, and how to end it. It reports false if the process takes no calls any more.
func (c *calls) add(conversation *conversation, end context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.open[conversation] = end
	return true
}

func (c *calls) remove(conversation *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conversation)
	c.settle()
}

// close lets no more calls in, and returns what is closed when the last one has ended.
func (c *calls) close() (idle <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.settle()
	return c.idle
}

func (c *calls) settle() {
	if !c.closed || len(c.open) > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// end ends all calls.
func (c *calls) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.open {
		end(cause)
	}
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// silent returns a call in which the plugin has said nothing for so long; nil if there is none.
func (c *calls) silent(limit time.Duration) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conversation := range c.open {
		if conversation.silence() >= limit {
			return conversation
		}
	}
	return nil
}
