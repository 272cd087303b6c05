package plugin

import (
	"context"
	"errors"
	"testing"
	"time"
)

// What counts is the first result. A plugin that goes on with the call is cancelled, so that the next one does not meet it.
func TestCallsThatGoOnAfterTheirResult(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	for item, reason := range map[string]string{
		"talkative": "it gives another result",
		"lingering": "it does not end the call",
	} {
		outcome, err := h.call(t.Context(), "raw", item)
		if err != nil || outcome.Succeeded == nil || string(outcome.Succeeded.Exports) != "{}" {
			t.Errorf("%s: expected the first result, but found %v (%v)", reason, outcome, err)
		}
		if len(h.log.with("plugin goes on with a call after its result")) == 0 {
			t.Errorf("%s: the log does not say so", reason)
		}
	}
	left(t, h.dir, "lingered")
}

// A plugin that reports without end has to wait, and its call ends when its time is over.
func TestEndlessReports(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	reports := 0
	began := time.Now()
	_, err := h.plugin("raw").Call(t.Context(), Reconcile,
		Call{DeployItem: deployItem("endless"), Deadline: began.Add(500 * time.Millisecond)},
		&observer{progress: func(string, string) { reports++ }})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected that the deadline has passed, but found: %v", err)
	}
	if most := messageBurst + int(time.Since(began).Seconds()*messagesPerSecond) + 1; reports > most {
		t.Errorf("expected %d reports at most, but found %d", most, reports)
	}
}
