package plugin

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason   string
		failures int
		random   float64
		want     time.Duration
	}{
		"first":      {"it begins with a quarter of a second", 0, 0, 250 * time.Millisecond},
		"second":     {"it doubles", 1, 0, 500 * time.Millisecond},
		"seventh":    {"it still does", 6, 0, 16 * time.Second},
		"eighth":     {"it does not grow beyond half a minute", 7, 0, 30 * time.Second},
		"many":       {"it never overflows", math.MaxInt, 0, 30 * time.Second},
		"half":       {"chance takes something off", 0, 0.5, 225 * time.Millisecond},
		"all but it": {"chance takes a fifth off at most", 7, 1, 24 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := backoff(test.failures, test.random); got != test.want {
				t.Errorf("%s: expected %s, but found %s", test.reason, test.want, got)
			}
		})
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := &lifecycle{}
	fail := func(lived time.Duration, reason Reason) (pause time.Duration) {
		t.Helper()
		l.start()
		if l.state != Starting {
			t.Fatalf("expected it to be starting, but found %s", l.state)
		}
		if lived >= 0 {
			l.run(now)
			if l.state != Running {
				t.Fatalf("expected it to be running, but found %s", l.state)
			}
			now = now.Add(lived)
		}
		return l.end(reason, now, 0)
	}
	never := time.Duration(-1)
	for i, step := range []struct {
		reason string
		lived  time.Duration
		why    Reason
		pause  time.Duration
		state  State
	}{
		{"the first failure", never, ReasonStart, 250 * time.Millisecond, Backoff},
		{"pauses grow", 0, ReasonExit, 500 * time.Millisecond, Backoff},
		{"a short life is a failure like another", stableAfter - 1, ReasonExit, time.Second, Backoff},
		{"still", never, ReasonStart, 2 * time.Second, Backoff},
		{"the fifth failure in a row makes a crash loop", 0, ReasonWedged, 4 * time.Second, CrashLoop},
		{"which goes on", 0, ReasonMemory, 8 * time.Second, CrashLoop},
		{"a minute of life ends it", stableAfter, ReasonExit, 250 * time.Millisecond, Backoff},
	} {
		if pause := fail(step.lived, step.why); pause != step.pause || l.state != step.state {
			t.Errorf("%d: %s: expected %s after a pause of %s, but found %s after %s", i, step.reason, step.state, step.pause,
				l.state, pause)
		}
	}
	l.start()
	l.run(now)
	l.standBy()
	l.start() // no restart
	if l.state != Standby {
		t.Errorf("expected calls to wait for the start after a standby, but found %s", l.state)
	}
	want := map[Reason]int{ReasonStart: 2, ReasonExit: 3, ReasonWedged: 1, ReasonMemory: 1}
	if diff := cmp.Diff(want, l.restarts); diff != "" {
		t.Errorf("restarts (-want +got):\n%s", diff)
	}
}
