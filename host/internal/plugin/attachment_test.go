package plugin

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
)

// An attachable plugin serves in a process of its own, such as that of a debugger, which is here the test's.
func TestAttach(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	at, done, err := sdk.ServeInProcess(ctx, slog.New(slog.DiscardHandler), echo{}, sdk.Name("echo"), sdk.Version("v1"),
		sdk.Types(echoType))
	if err != nil {
		t.Fatal(err)
	}
	address := at.Network() + "://" + at.String()
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
	h.expectSuccess(address)
	eventually(t, "its wake-ups", func() bool { return len(h.wakeUps()) > 0 })
	end()
	<-done
	h.expectProblem(address, Backoff, "the connection was closed")
	if s := h.status("raw_a_one"); s.State != Running || s.Restarted() > 0 {
		t.Errorf("expected the other one to be left alone, but found %+v", s)
	}
}
