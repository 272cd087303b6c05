package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// What counts is the first result. A plugin that goes on with the call is cancelled, so that the next one does not meet
// it.
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

// savesForEver is the stream of a plugin that does nothing but save its status.
func savesForEver(send func(*deployerv1.HostMessage) error) stream {
	sequence := uint64(0)
	return stream{send: send, recv: func() (*deployerv1.PluginMessage, error) {
		sequence++
		return saved(sequence), nil
	}}
}

// A plugin that does not take the acknowledgement of what it has saved is silent: the host waits for it.
func TestSilentWhileItTakesNoAcknowledgement(t *testing.T) {
	t.Parallel()
	saving, letSave := make(chan struct{}), make(chan struct{})
	sending, letSend := make(chan struct{}), make(chan struct{})
	c := newConversation(&observer{save: func(context.Context, []byte) error {
		saving <- struct{}{}
		<-letSave
		return nil
	}})
	c.stream = savesForEver(func(*deployerv1.HostMessage) error {
		sending <- struct{}{}
		<-letSend
		return errClosed
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.result(t.Context())
		ended <- err
	}()
	checks := func() int {
		c.silentChecks() // the first one sees what there is
		return c.silentChecks()
	}
	<-saving
	if got := checks(); got != 0 {
		t.Errorf("the host saves: expected no silence, but found %d checks", got)
	}
	close(letSave)
	<-sending
	if got := checks(); got != 1 {
		t.Errorf("the host waits for the plugin to take the acknowledgement: expected one check, but found %d", got)
	}
	close(letSend)
	if err := <-ended; !errors.Is(err, errClosed) {
		t.Errorf("expected that sending has failed, but found: %v", err)
	}
	if got := checks(); got != 0 {
		t.Errorf("the call has ended: expected no silence, but found %d checks", got)
	}
}
