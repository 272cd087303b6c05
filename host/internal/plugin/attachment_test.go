package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
)

// A plugin in a restarted debugger is found again at its address, also after the end by force that a debugger brings,
// and the host says nowhere that it starts the plugin.
// Rule (plugin-authors.md#5-debug-it): A restarted plugin at the same address is attached again.
func TestAttachAgain(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	program := filepath.Join(pluginDir(t, "echo"), "echo")
	debug := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, "attachable", socket)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	address := "unix://" + socket
	h := openHost(t, "", func(o *Options) { o.Attach = []string{address} }).run()
	h.expectProblem(address, Backoff, "no process listens there")
	for range 2 {
		debugged := debug()
		h.waitFor(address, Running)
		h.expectSuccess(address)
		killErr := debugged.Process.Kill()
		if err := debugged.Wait(); killErr != nil || err == nil {
			t.Fatalf("expected the end by force, but found %v, %v", killErr, err)
		}
		eventually(t, "the end to be noticed", func() bool { return h.status(address).State != Running })
		if restarts := h.status(address).Restarts; len(restarts) > 0 {
			t.Errorf("the host does not start the plugin, but has counted %v", restarts)
		}
	}
	looked := 0
	for _, record := range h.log.All() {
		message := fmt.Sprint(record["msg"])
		if strings.Contains(message, "start") || strings.Contains(message, "running") {
			t.Errorf("the host says that it starts the plugin: %q", message)
		}
		if strings.Contains(message, "it is looked for") {
			looked++
		}
	}
	if looked == 0 || looked > 5 {
		t.Errorf("expected a record for each reason without a plugin, but found %d", looked)
	}
}

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
