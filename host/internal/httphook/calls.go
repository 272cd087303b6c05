package httphook

import "sync"

// calls is what has come of the calls of a hook in this replica.
type calls struct {
	mu sync.Mutex
	// answered: there was a good answer since the last verdict.
	answered bool
	// failed is the first failure since the last good answer; nil for none.
	failed *Error
}

// note notes what has come of a call. A refusal that the hook means, because it says what becomes of the job, is a good
// answer.
func (c *calls) note(failed *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	meant := failed != nil && (failed.Continue || failed.Reason == ReasonPermanentError)
	switch {
	case failed == nil || meant:
		c.answered, c.failed = true, nil
	case c.failed == nil:
		c.failed = failed
	}
}

// verdict returns why calls fail; nil if one had a good answer since the last verdict, or none has failed. A hook that
// answers some calls well and refuses others, item by item, does not fail.
func (c *calls) verdict() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.failed
	if c.answered {
		failed = nil
	}
	c.answered = false
	return failed
}
