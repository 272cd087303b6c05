package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
)

// underWay calls a plugin and waits until it has begun. The channel gives the error of the call.
func (h *host) underWay(file, item string) <-chan error {
	h.t.Helper()
	before := h.status(file).Calls
	ended := make(chan error, 1)
	go func() {
		_, err := h.call(h.t.Context(), file, item)
		ended <- err
	}()
	eventually(h.t, "the call to begin", func() bool { return h.status(file).Calls > before })
	return ended
}

func TestSilentCall(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h := runHost(t, pluginDir(t, "raw"), withClock(clock))
	speaking, silent := h.underWay("raw", "beat"), h.underWay("raw", "hang")
	eventually(t, "the plugin to be killed", func() bool {
		clock.Step(time.Second)
		return h.status("raw").Restarts[ReasonWedged] > 0
	})
	if err := <-silent; !errors.Is(err, ErrCrashed) || !strings.Contains(err.Error(), "said nothing in a call for 30s") {
		t.Errorf("expected that the silent call is to blame, but found: %v", err)
	}
	if err := <-speaking; !errors.Is(err, ErrNotRunning) || errors.Is(err, ErrCrashed) {
		t.Errorf("expected that the other one is not, but found: %v", err)
	}
}

// A plugin that says itself that it is unhealthy is shown as such, and started again if it stays so. No call that is
// under way is to blame.
func TestUnhealthy(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h := runHost(t, pluginDir(t, "raw"), withClock(clock))
	says := "it is unhealthy: a call goes on although it was cancelled"
	become := func(item string, ready func(error) bool) {
		if _, err := h.call(t.Context(), "raw", item); err != nil {
			t.Fatal(err)
		}
		eventually(t, "what the plugin says to be shown", func() bool {
			clock.Step(time.Second)
			return h.status("raw").State == Running && ready(h.Ready())
		})
	}
	become("ail", func(err error) bool { return err != nil && strings.Contains(err.Error(), says) })
	become("recover", func(err error) bool { return err == nil })
	become("ail", func(err error) bool { return err != nil })
	call := h.underWay("raw", "beat")
	eventually(t, "the plugin to be killed", func() bool {
		clock.Step(time.Second)
		return h.status("raw").Restarts[ReasonWedged] > 0
	})
	err := <-call
	if !errors.Is(err, ErrNotRunning) || !errors.Is(err, ErrUnhealthy) || errors.Is(err, ErrCrashed) {
		t.Errorf("expected that the call under way is not to blame, but found: %v", err)
	}
	if !strings.Contains(err.Error(), "it has been unhealthy for 30s: a call goes on although it was cancelled") {
		t.Errorf("expected the reason, but found: %v", err)
	}
	eventually(t, "the plugin to run again", func() bool { return h.Ready() == nil && h.status("raw").State == Running })
}

// All calls of a process that answers nothing may be why.
// Rule (operators-guide.md#plugin-states): A plugin without an answer is ended and started again.
func TestWedgedProcess(t *testing.T) {
	t.Parallel()
	h := runHost(t, pluginDir(t, "raw"), func(o *Options) { o.Silence = 1500 * time.Millisecond })
	one, other := h.underWay("raw", "beat"), h.underWay("raw", "beat")
	h.signal("raw", syscall.SIGSTOP)
	for _, ended := range []<-chan error{one, other} {
		if err := <-ended; !errors.Is(err, ErrCrashed) || !strings.Contains(err.Error(), "answered no health check") {
			t.Errorf("expected that the call may be to blame, but found: %v", err)
		}
	}
	eventually(t, "the plugin to run again", func() bool {
		s := h.status("raw")
		return s.State == Running && s.Restarts[ReasonWedged] > 0
	})
}

// Rule (host-configuration.md#plugins): A plugin is ended above the memory of `plugins.<name>.memory`.
func TestMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Uint64
		used.Store(100 << 20)
		var kills atomic.Int32
		log := slog.New(slog.DiscardHandler)
		process := &launch.Process{Kill: func() { kills.Add(1) }}
		r := &run{process: process, session: session.New(process, log)}
		p := &Plugin{
			profile: Profile{Memory: used.Load()}, settings: &settings{Options: Options{Clock: clock.RealClock{}}}, log: log,
		}
		go p.checkMemory(t.Context(), r, used.Load)
		time.Sleep(2 * memoryInterval)
		synctest.Wait()
		if kills.Load() > 0 {
			t.Error("the limit itself is too much")
		}
		used.Store(101 << 20)
		time.Sleep(3 * memoryInterval)
		synctest.Wait()
		const text = "it has taken 101 MiB of memory, and may take 100 MiB"
		err := r.session.EndError()
		if kills.Load() != 1 || reasonOf(err) != ReasonMemory || !strings.HasSuffix(err.Error(), text) {
			t.Errorf("expected that memory is the reason for one kill, but found: %v", err)
		}
	})
}

func TestHealthRecord(t *testing.T) {
	t.Parallel()
	deaf, silent := errors.New("no answer"), &session.Blame{}
	ill, worse := fmt.Errorf("%w: one call", session.ErrUnwell), fmt.Errorf("%w: another call", session.ErrUnwell)
	type check struct {
		answer error
		silent *session.Blame
	}
	for name, test := range map[string]struct {
		reason string
		checks []check
		want   string // of the last one; empty if it lives
		blame  session.Blame
	}{
		"well": {reason: "it answers", checks: []check{{}, {}, {}, {}}},
		"deaf": {reason: "it has not answered for the whole time",
			checks: []check{{answer: deaf}, {answer: deaf}, {answer: deaf}},
			want:   "it has answered no health check for 30s: no answer"},
		"deaf for a bit": {reason: "it has some time left", checks: []check{{}, {answer: deaf}, {answer: deaf}}},
		"recovered": {reason: "an answer makes up for all", checks: []check{{answer: deaf}, {answer: deaf}, {},
			{answer: deaf}, {answer: deaf}}},
		"silent": {reason: "it answers, but not in the call", checks: []check{{silent: silent}},
			want: "it has said nothing in a call for 30s, not even a heartbeat"},
		"silent and deaf": {reason: "the call is not to blame if nothing is answered",
			checks: []check{{deaf, silent}, {deaf, silent}, {deaf, silent}},
			want:   "it has answered no health check for 30s: no answer"},
		"unhealthy": {reason: "a call goes on", checks: []check{{answer: ill}, {answer: ill}, {answer: ill},
			{answer: ill}}, want: "it has been unhealthy for 30s: one call", blame: session.BlameNone()},
		"another reason": {reason: "the call before has ended", checks: []check{{answer: ill}, {answer: ill}, {answer: ill},
			{answer: worse}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := healthRecord{silence: 30 * time.Second}
			var found *killing
			for i, c := range test.checks {
				if found != nil {
					t.Fatalf("%s: it is killed after %d checks already: %v", test.reason, i, found)
				}
				found = h.judge(c.answer, c.silent)
			}
			switch {
			case (found == nil) != (test.want == ""):
				t.Errorf("%s: expected %q, but found %v", test.reason, test.want, found)
			case found != nil && (found.text != test.want || found.blame != test.blame):
				t.Errorf("%s: expected %q, but found %+v", test.reason, test.want, found)
			}
		})
	}
}
