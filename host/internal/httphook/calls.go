package httphook

import "sync"

// calls has the results of a hook's calls in this replica.
type calls struct {
	mu sync.Mutex
	// answered: there was a good answer since the last verdict.
	answered bool
	// failed stands for the failures since the last good answer in verdicts; nil for none.
	failed *Error
	// other is the first failure of another kind since the last verdict, and again reports another failure of the kind
	// of failed. Verdicts stay the same as long as both go on, since each new one is a write and an event.
	other *Error
	again bool
}

// note notes the result of a call. A refusal about the job itself, permanent or with continue, is a good answer.
func (c *calls) note(failed *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	meant := failed != nil && (failed.Continue || failed.Reason == ReasonPermanentError)
	switch {
	case failed == nil || meant:
		c.answered, c.failed, c.other = true, nil, nil
	case c.failed == nil:
		c.failed, c.again = failed, true
	case failed.Reason == c.failed.Reason && failed.Code == c.failed.Code:
		c.again = true
	case c.other == nil:
		c.other = failed
	}
}

// verdict returns the reason of failing calls; nil after a good answer since the last verdict, or without a failure. A
// hook that answers some calls well and refuses others, item by item, does not fail.
func (c *calls) verdict() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The failure before is over.
	if c.other != nil && !c.again {
		c.failed = c.other
	}
	c.other, c.again = nil, false
	failed := c.failed
	if c.answered {
		failed = nil
	}
	c.answered = false
	return failed
}
