package plugin

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// unneededHost runs a plugin that no deploy item needs.
func unneededHost(t *testing.T, file string) (*host, *clocktesting.FakeClock) {
	t.Helper()
	clock := newClock()
	h := runHost(t, pluginDir(t, file), withClock(clock), func(o *Options) {
		o.StopGrace, o.Silence = time.Millisecond, 24*time.Hour // the test is no judge of heartbeats
	})
	h.unneeded.Store(true)
	return h, clock
}

// passTime lets time pass until a condition holds.
func (h *host) passTime(clock *clocktesting.FakeClock, what string, condition func() bool) {
	h.t.Helper()
	eventually(h.t, what, func() bool {
		clock.Step(needInterval)
		return condition()
	})
}

func (h *host) standsBy(file string) func() bool {
	return func() bool { return h.status(file).State == Standby }
}

// TestStandby: a plugin without a deploy item has no process until a call needs one.
// Rule (operators-guide.md#plugin-states): A plugin without deploy items is in standby.
func TestStandby(t *testing.T) {
	t.Parallel()
	h, clock := unneededHost(t, "raw")
	first := h.current("raw")
	h.passTime(clock, "the plugin to stand by", h.standsBy("raw"))
	<-first.Ended
	eventually(t, "its process to be gone", func() bool { return h.status("raw").Pid == 0 })
	if s := h.status("raw"); s.Problem != nil || h.Ready() != nil || h.For(echoType) == nil {
		t.Errorf("expected it to be ready, without a process, but found %+v and %v", s, h.Ready())
	}
	if _, err := h.plugin("raw").Metrics(t.Context()); !errors.Is(err, ErrNotRunning) || !h.standsBy("raw")() {
		t.Errorf("expected that metrics start nothing, but found %v", err)
	}

	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			if _, err := h.call(t.Context(), "raw", "succeed"); err != nil {
				t.Errorf("expected the call to start it, but found %v", err)
			}
		})
	}
	calls.Wait()
	second := h.current("raw")
	if s := h.status("raw"); s.State != Running || s.Restarted() != 0 {
		t.Errorf("expected a start that is no restart, but found %+v", s)
	}
	h.passTime(clock, "the plugin to stand by again", h.standsBy("raw"))
	<-second.Ended

	h.unneeded.Store(false) // deployed by another replica, an item needs no call
	h.passTime(clock, "the plugin to run for an item", func() bool { return h.status("raw").State == Running })
}

// TestNoStandby: a plugin with deploy items or a call under way keeps its process.
func TestNoStandby(t *testing.T) {
	t.Parallel()
	h, clock := unneededHost(t, "raw")
	call, end := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer end()
	ended.Go(func() { _, _ = h.call(call, "raw", "beat") })
	asked := func(more int32) func() bool {
		before := h.asked.Load()
		return func() bool { return h.asked.Load() >= before+more }
	}
	eventually(t, "the call to begin", func() bool { return h.status("raw").Calls == 1 })
	h.passTime(clock, "the plugin to be in doubt", asked(3))
	h.unneeded.Store(false)
	end()
	eventually(t, "the call to end", func() bool { return h.status("raw").Calls == 0 })
	h.passTime(clock, "the plugin to be in doubt without the call", asked(3))
	if s := h.status("raw"); s.State != Running || s.Restarted() != 0 {
		t.Errorf("expected it to run on, but found %+v", s)
	}
}

// TestFailureAfterStandby: a call learns at once that the start has failed, and does not wait for another one.
func TestFailureAfterStandby(t *testing.T) {
	t.Parallel()
	h, clock := unneededHost(t, "once")
	h.passTime(clock, "the plugin to stand by", h.standsBy("once"))
	if _, err := h.call(t.Context(), "once", "succeed"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found %v", err)
	}
	h.waitFor("once", Backoff)
}

// TestDeadlineInStandby: a call waits for the start until its deadline at most.
func TestDeadlineInStandby(t *testing.T) {
	t.Parallel()
	p := &Plugin{facts: facts{standby: newStandby()}}
	if _, err := p.Validate(t.Context(), Call{Deadline: time.Now()}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning at the deadline, but found %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Holdings(ended); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning at the end of the context, but found %v", err)
	}
	select {
	case <-p.standby.called:
	default:
		t.Error("expected the calls to ask for a start")
	}
}

// TestEndInStandby: the host need not start a plugin to end.
func TestEndInStandby(t *testing.T) {
	t.Parallel()
	h, clock := unneededHost(t, "raw")
	h.passTime(clock, "the plugin to stand by", h.standsBy("raw"))
	h.end()
	if s := h.status("raw"); s.State != Stopped {
		t.Errorf("expected it to have stopped, but found %+v", s)
	}
	if _, err := h.call(t.Context(), "raw", "succeed"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found %v", err)
	}
}
