package itemevents

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"one":      {[]string{"a"}, "a"},
		"several":  {[]string{"a", "b", "c"}, "a; b; c"},
		"repeated": {[]string{"a", "b", "a"}, "a; b"},
		"long":     {[]string{long, "b", "c"}, long[:maxNote-len("…; and 2 more")] + "…; and 2 more"},
		"no room":  {[]string{long[:600], long[:300], long[:301], "c"}, long[:600] + "; " + long[:300] + "; and 2 more"},
	} {
		b := &batch{}
		for _, text := range test.texts {
			b.add(text)
		}
		if found := b.note(); found != test.want {
			t.Errorf("%s: expected %q, but found %q", name, test.want, found)
		}
	}
}

// calls returns a call and what it records.
func newCall() (c *Call, clock *clocktesting.FakeClock, recorded *[]string, logged *bytes.Buffer) {
	clock, recorded, logged = clocktesting.NewFakeClock(time.Now()), &[]string{}, &bytes.Buffer{}
	record := func(eventType, reason, message string) {
		*recorded = append(*recorded, eventType+" "+reason+" "+message)
	}
	return &Call{
		Plugin: "one", Record: record, Now: clock.Now, Log: slog.New(slog.NewTextHandler(logged, nil)),
	}, clock, recorded, logged
}

// TestEventsOfOneReason: the events of one call with the same reason are one event.
// Rule (troubleshooting.md#reasons-of-events-and-conditions): Events of one reason in one call become one event with
// all texts.
func TestEventsOfOneReason(t *testing.T) {
	c, _, recorded, _ := newCall()
	for _, name := range []string{"a", "b", "c"} {
		c.Add(true, "LeftOnTarget", "ConfigMap "+name+" is left")
		c.Add(false, "Repaired", name)
	}
	c.End()
	want := []string{
		"Warning LeftOnTarget ConfigMap a is left; ConfigMap b is left; ConfigMap c is left", "Normal Repaired a; b; c",
	}
	if !slices.Equal(*recorded, want) {
		t.Errorf("expected %q, but found %q", want, *recorded)
	}
}

// TestEventsOfLongCalls: an event does not wait for the end of a call, and what follows under its reason later is an
// event with a text of its own.
// Rule (troubleshooting.md#reasons-of-events-and-conditions): Events of a long call do not wait for its end.
func TestEventsOfLongCalls(t *testing.T) {
	c, clock, recorded, _ := newCall()
	for i := range 2 {
		c.Add(true, "HookFailed", fmt.Sprint(i))
		c.Flush()
		if len(*recorded) != i {
			t.Errorf("expected the event to wait for others, but found %q", *recorded)
		}
		clock.Step(delay)
		c.Flush()
		if len(*recorded) != i+1 {
			t.Errorf("expected the event to be recorded, but found %q", *recorded)
		}
	}
}

// TestEventsDoNotFlood: the events of one call are bounded; the log has the first and the number of the others.
func TestEventsDoNotFlood(t *testing.T) {
	c, _, recorded, logged := newCall()
	for i := range 500 {
		c.Add(false, fmt.Sprintf("Probed%d", i), fmt.Sprint(i))
	}
	c.End()
	if got := len(*recorded); got != MaxOfCall ||
		!strings.HasPrefix((*recorded)[0], corev1.EventTypeWarning+" TooManyEvents") {
		t.Errorf("expected %d events, but found %q", MaxOfCall, *recorded)
	}
	first, number := fmt.Sprintf("message=%d\n", MaxOfCall-1), fmt.Sprintf("count=%d\n", 500-MaxOfCall+1)
	if log := logged.String(); !strings.Contains(log, first) || !strings.Contains(log, number) ||
		strings.Count(log, "Probed") != 1 {
		t.Errorf("expected the first dropped event and the number of them in the log, but found:\n%s", log)
	}
}
