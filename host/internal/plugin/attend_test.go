package plugin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"
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

// A plugin that says itself that it is unhealthy is shown as such, and started again if it stays so. No call that is under way is to blame.
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

// A host that got no processor for long has heard nothing for a reason of its own.
func TestSilenceOfASleepingHost(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h := runHost(t, pluginDir(t, "raw"), withClock(clock))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan struct{})
	go func() {
		_, _ = h.plugin("raw").Call(ctx, Reconcile, Call{DeployItem: deployItem("hold")}, &observer{
			progress: func(string, string) { close(heard) },
		})
	}()
	<-heard
	clock.Step(time.Hour)
	eventually(t, "the look at the plugin after the sleep", func() bool { return len(h.log.with("the host was asleep")) > 0 })
	leaveIn(t, h.dir, "go")
	eventually(t, "the end of the call", func() bool { return h.status("raw").Calls == 0 })
	if got := h.status("raw"); got.Restarted() > 0 || got.State != Running {
		t.Errorf("expected the plugin to be left alone, but found %+v", got)
	}
}

// All calls of a process that answers nothing may be why.
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

// health is a health service that answers in one way.
type health struct {
	grpc_health_v1.HealthClient

	answer grpc_health_v1.HealthCheckResponse_ServingStatus
	err    error
}

func (h health) Check(context.Context, *grpc_health_v1.HealthCheckRequest, ...grpc.CallOption) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: h.answer}, h.err
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		health health
		well   bool
	}{
		"serving":     {"it says so", health{answer: grpc_health_v1.HealthCheckResponse_SERVING}, true},
		"not serving": {"it says so", health{answer: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, false},
		"unknown":     {"it answers", health{answer: grpc_health_v1.HealthCheckResponse_UNKNOWN}, true},
		"no service":  {"it answers, though it should have the service", health{err: status.Error(codes.Unimplemented, "")}, true},
		"unhealthy":   {"it says so", health{err: status.Error(codes.FailedPrecondition, "")}, false},
		"late":        {"no answer", health{err: status.Error(codes.DeadlineExceeded, "")}, false},
		"gone":        {"no answer", health{err: status.Error(codes.Unavailable, "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &process{health: test.health}
			if err := p.check(t.Context(), time.Minute); (err == nil) != test.well {
				t.Errorf("%s: found: %v", test.reason, err)
			}
		})
	}
}

// stubLink is a process that takes as much memory as the test says.
type stubLink struct {
	launched

	bytes  atomic.Uint64
	killed chan struct{}
}

func (l *stubLink) memory() uint64 { return l.bytes.Load() }
func (l *stubLink) kill()          { close(l.killed) }
func (l *stubLink) pid() int       { return 1 }

func TestMemory(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Time{})
	link := &stubLink{killed: make(chan struct{})}
	proc := &process{link: link, log: slog.New(slog.DiscardHandler)}
	p := &Plugin{profile: Profile{Memory: 100 << 20}, settings: &settings{clock: clock}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.checkMemory(ctx, proc)
	}()
	eventually(t, "the first look to be awaited", clock.HasWaiters)
	link.bytes.Store(100 << 20)
	clock.Step(memoryInterval)
	if proc.killed != nil {
		t.Error("the limit itself is too much")
	}
	link.bytes.Store(101 << 20)
	eventually(t, "the process to be killed", func() bool {
		clock.Step(memoryInterval)
		select {
		case <-link.killed:
			return true
		default:
			return false
		}
	})
	if s := proc.killed; s.reason != ReasonMemory || s.why != "it has taken 101 MiB of memory, and may take 100 MiB" {
		t.Errorf("expected memory to be the reason, but found %+v", s)
	}
	cancel()
	<-done
}

// However many calls fail at once, there is one restart.
func TestNoRestartStorm(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	var ended []<-chan error
	for range 64 {
		ended = append(ended, h.underWay("raw", "beat"))
	}
	h.crash("raw")
	for _, e := range ended {
		if err := <-e; !errors.Is(err, ErrCrashed) {
			t.Errorf("expected ErrCrashed, but found: %v", err)
		}
	}
	eventually(t, "the plugin to run again", func() bool { return h.status("raw").State == Running && h.status("raw").Restarted() > 0 })
	if got := h.status("raw"); got.Restarted() != 1 {
		t.Errorf("expected one restart, but found %v", got.Restarts)
	}
}

func TestPulse(t *testing.T) {
	t.Parallel()
	deaf, silent := errors.New("no answer"), &conversation{}
	type look struct {
		after  time.Duration
		answer error
		silent *conversation
	}
	for name, test := range map[string]struct {
		reason string
		looks  []look
		why    string // of the last one; empty if it lives
		call   *conversation
		asleep bool
	}{
		"well":           {reason: "it answers", looks: []look{{10 * time.Second, nil, nil}, {10 * time.Second, nil, nil}}},
		"deaf":           {reason: "it has not answered for the whole time", looks: []look{{20 * time.Second, deaf, nil}, {10 * time.Second, deaf, nil}}, why: "answered no health check for 30s: no answer"},
		"deaf for a bit": {reason: "it has some time left", looks: []look{{10 * time.Second, nil, nil}, {10 * time.Second, deaf, nil}, {10 * time.Second, deaf, nil}}},
		"recovered":      {reason: "an answer makes up for all", looks: []look{{20 * time.Second, deaf, nil}, {5 * time.Second, nil, nil}, {20 * time.Second, deaf, nil}}},
		"silent":         {reason: "it answers, but not in the call", looks: []look{{10 * time.Second, nil, silent}}, why: "said nothing in a call for 30s", call: silent},
		"silent and deaf": {
			reason: "the call is not to blame if nothing is answered",
			looks:  []look{{20 * time.Second, deaf, silent}, {10 * time.Second, deaf, silent}}, why: "answered no health check",
		},
		"asleep": {reason: "the host has not looked", looks: []look{{time.Hour, deaf, silent}}, asleep: true},
		"awake":  {reason: "but then it does", looks: []look{{time.Hour, deaf, silent}, {20 * time.Second, deaf, nil}, {10 * time.Second, deaf, nil}}, why: "answered no health check"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			p := newPulse(30*time.Second, now)
			var verdict *killReason
			var asleep bool
			for i, l := range test.looks {
				if verdict != nil {
					t.Fatalf("%s: it is killed after %d looks already: %s", test.reason, i, verdict.why)
				}
				now = now.Add(l.after)
				verdict, asleep = p.judge(now, l.answer, l.silent)
			}
			if asleep != test.asleep || (verdict == nil) != (test.why == "") {
				t.Fatalf("%s: found %+v (asleep: %t)", test.reason, verdict, asleep)
			}
			if verdict != nil && (!strings.Contains(verdict.why, test.why) || verdict.call != test.call) {
				t.Errorf("%s: expected %q, but found %+v", test.reason, test.why, verdict)
			}
		})
	}
}
