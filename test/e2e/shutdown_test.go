package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestStoppingHostLetsCallsFinish: a call that is under way when the host is asked to stop ends as usual, its job, too,
// and nobody makes it again.
// Rule (operators-guide.md#upgrade): A stopping host lets calls finish within `timeouts.shutdown`, and no replica
// repeats them.
func TestStoppingHostLetsCallsFinish(t *testing.T) {
	const millis = 12_000
	for name, settings := range map[string][]string{"with locks": nil, "without locks": {`locking: "off"`}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, settings...)
			counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
			first := f.start(1)[0]
			item := counts.newItem("item", millis, 0, 0)
			create(t, item)
			setJob(t, item)
			counts.waitBegun(item, 1)
			f.stop(first)
			if got := read(t, item); got.Status.Phase != succeeded || got.Status.JobIDFinished != got.Status.JobID {
				t.Errorf("the stopping host has left the item %s, with the error %v", got.Status.Phase, got.Status.LastError)
			}
			f.start(1)
			witness := counts.newItem("witness", 0, 0, 0)
			carryOut(t, witness, succeeded)
			if calls := counts.begun(item); len(calls) != 1 {
				t.Errorf("expected one call, but found %v", calls)
			}
			counts.check()
		})
	}
}

func TestStopDrains(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil"))
	create(t, item)
	jobID := setJob(t, item)
	eventually(t, "the plugin to be called", func(context.Context) (string, error) {
		return missing(lines(t, filepath.Join(dir, "trace")), "reconcile "+jobID), nil
	})
	plugin := pid(t, host, "probe")

	// A plugin that hears nothing for a while lets us look at the host meanwhile.
	signal(t, plugin, syscall.SIGSTOP)
	eventually(t, "the plugin to hear nothing", func(context.Context) (string, error) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", plugin))
		if strings.Contains(string(stat), ") T ") { // all its threads are stopped
			return "", nil
		}
		return string(stat), err
	})
	if err := host.Terminate(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the host to say that it is stopping", func(ctx context.Context) (string, error) {
		if err := host.Ready(ctx); err == nil || err.Error() != "the host is stopping" {
			return fmt.Sprintf("it says %v", err), nil
		}
		return "", nil
	})
	signal(t, plugin, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := host.Stop(ctx); err != nil {
		t.Fatalf("the host did not stop in order: %v", err)
	}
	if running(plugin) {
		t.Error("the plugin runs on after its host has stopped")
	}
	if fresh := read(t, item); fresh.Status.JobIDFinished == jobID || fresh.Status.LastError != nil {
		t.Errorf("a job that the host could not finish must stay as it is, but found %s", describe(fresh))
	}

	touch(t, filepath.Join(dir, "blockUntil"))
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	waitFinished(t, item, jobID)
}
