package plugin

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
)

// attachable serves the echo deployer within the test's process, as a debugger would have it. end ends it.
func attachable(t *testing.T) (address string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	at, done, err := sdk.ServeInProcess(ctx, slog.New(slog.DiscardHandler), echo{}, sdk.Name("echo"), sdk.Version("v1"),
		sdk.Types(echoType))
	if err != nil {
		t.Fatal(err)
	}
	return at.Network() + "://" + at.String(), func() { cancel(); <-done }
}

func TestAttach(t *testing.T) {
	t.Parallel()
	address, end := attachable(t)
	before := openHost(t, "", func(o *Options) { o.Attach = []string{address} }).run()
	before.waitFor(address, Running)
	before.end() // which ends nothing that it has not started

	h := openHost(t, pluginDir(t, "raw_a_one"), func(o *Options) {
		o.Attach = []string{address}
		o.Profiles = map[string]Profile{"another-file": {Plugin: "echo"}} // of the one that it stands for
	}).run()
	h.waitFor("raw_a_one", Running)
	s := h.waitFor(address, Running)
	if s.Pid != 0 || s.Info == nil || s.Info.Name != "echo" {
		t.Errorf("expected a plugin without a process of ours, but found %+v", s)
	}
	if outcome, err := h.call(t.Context(), address, "item"); err != nil || outcome.Succeeded == nil {
		t.Errorf("expected success, but found %v (%v)", outcome, err)
	}
	eventually(t, "its wake-ups", func() bool { return len(h.wakeUps()) > 0 })
	end()
	if s := h.waitFor(address, Backoff); !strings.Contains(s.Problem.Error(), "the connection was closed") {
		t.Errorf("expected the end of the connection to be the reason, but found: %v", s.Problem)
	}
	if s := h.status("raw_a_one"); s.State != Running || s.Restarted() > 0 {
		t.Errorf("expected the other one to be left alone, but found %+v", s)
	}
}
