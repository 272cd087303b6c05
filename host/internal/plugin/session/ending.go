package session

import (
	"fmt"
	"sync"
)

// Blame tells which running calls may be the cause of a kill: each, one, or none. The zero value is each.
type Blame struct {
	others bool // some calls are not to blame
	call   *conversation
}

// BlameNone blames no running call.
func BlameNone() Blame { return Blame{others: true} }

// of reports whether a call may be the cause.
func (b Blame) of(c *conversation) bool { return !b.others || b.call == c }

// ending is the account of the end of a process.
type ending struct {
	mu      sync.Mutex
	killed  error // the reason of a kill by the host; nil for none
	blame   Blame // of the kill
	stopped bool  // the host has ended it in order
	calls   int   // the calls under way, counted at the first one to end with the process
}

// kill notes the reason of a kill, and reports whether it is the first.
func (e *ending) kill(reason error, blame Blame) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.killed != nil {
		return false
	}
	e.killed, e.blame = reason, blame
	return true
}

func (e *ending) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}

func (e *ending) reason() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.killed
}

// errorOf returns the error of a call which ended with the process, beside the others of so many running ones.
func (e *ending) errorOf(c *conversation, running int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == 0 { // later some of them may be gone
		e.calls = running
	}
	crashed := ErrCrashed
	if e.calls > 1 && !e.blame.others {
		crashed = fmt.Errorf("%w %w", ErrCrashed, ErrBeside)
	}
	switch {
	case e.killed == nil && e.stopped:
		return ErrNotRunning
	case e.killed == nil:
		return crashed
	case e.blame.of(c):
		return fmt.Errorf("%w: %w", crashed, e.killed)
	default:
		return fmt.Errorf("%w: %w: %w", ErrNotRunning, ErrUnhealthy, e.killed)
	}
}
