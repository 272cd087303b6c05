package httphook

import "sync"

// calls is what has come of the calls of a hook in this replica.
type calls struct {
	mu sync.Mutex
	// answered: there was a good answer since the last verdict.
	answered bool
	// failed is what a verdict tells of the failures since the last good answer; nil for none.
	failed *Error
	// other is the first failure of another kind since the last verdict, and again says that there was one of the kind of
	// failed, too. Verdicts stay the same as long as that goes on, since each other one is a write and an event.
	other *Error
	again bool
}

// note notes what has come of a call. A refusal that the hook means, because it says what becomes of the job, is a good
// answer.
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

// verdict returns why calls fail; nil if one had a good answer since the last verdict, or none has failed. A hook that
// answers some calls well and refuses others, item by item, does not fail.
func (c *calls) verdict() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.other != nil && !c.again { // the one before is over
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
