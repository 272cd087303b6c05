package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// printed is what a command has printed, and how it ended.
type printed struct {
	stdout, stderr string
	code           int
}

// pergola runs a command and waits for it.
func pergola(t *testing.T, args ...string) printed {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "pergola"), args...)
	cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return printed{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// expect wants an exit code and texts, wherever they are printed.
func (p printed) expect(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.stdout+p.stderr, text) {
			t.Errorf("expected %q", text)
		}
	}
	if p.code != code {
		t.Errorf("expected exit code %d, but found %d", code, p.code)
	}
	if t.Failed() {
		t.Fatalf("standard output:\n%s\nstandard error:\n%s", p.stdout, p.stderr)
	}
}

// runDir is a base of run directories with a short path. Nothing may be left in it at the end of the test.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "run") //nolint:usetesting // that of tests is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil || len(left) > 0 {
			t.Errorf("expected nothing to be left in the run directory, but found %v (%v)", left, err)
		}
	})
	return dir
}

// listed is a plugin as the list shows it.
type listed struct {
	File, Name, SHA256, State string
	PID                       int
}

// listPlugin is what the list of a host's plugins says of a file.
func listPlugin(t *testing.T, runDir, file string) listed {
	t.Helper()
	out := pergola(t, "plugins", "list", "--run-dir", runDir, "-o", "json")
	var content struct{ Plugins []listed }
	if err := json.Unmarshal([]byte(out.stdout), &content); err != nil || out.code != 0 {
		t.Fatalf("list plugins: %v, %s", err, out.stderr)
	}
	for _, p := range content.Plugins {
		if p.File == file {
			return p
		}
	}
	t.Fatalf("there is no plugin %s in %+v", file, content.Plugins)
	return listed{}
}

// replacePlugin puts another build of a plugin in the place of one, as an operator does.
func replacePlugin(t *testing.T, dir, file string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(dir, ".next")
	if err := os.WriteFile(next, append(content, '\n'), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
}

// TestLockedPlugins: a program that is not the one that was locked is refused, and what was locked goes on. Once
// the new one is locked, a reload gives the plugin a new process, and the call under way ends in the old one.
func TestLockedPlugins(t *testing.T) {
	run, dir, traces := runDir(t), pluginDir(t, "probe"), t.TempDir()
	lock := filepath.Join(dir, "plugins.lock")
	pergola(t, "plugins", "lock", dir, "--run-dir", run).expect(t, 0, "added probe", lock+" is written")
	config := anyConfig + fmt.Sprintf("pluginVerification: {lockFile: %q}\n", lock) +
		fmt.Sprintf("plugins: {probe: {confinement: {write: [%q]}}}\n", os.TempDir())
	host := startReadyHost(t, testenv.HostOptions{PluginDir: dir, Config: writeConfig(t, config), Args: []string{"--run-dir", run}})
	before := listPlugin(t, run, "probe")
	if before.State != "Running" || before.Name != "probe" || !running(before.PID) || len(before.SHA256) != 64 {
		t.Errorf("the list does not say what there is to say: %+v", before)
	}
	namespace := newNamespace(t)
	item := start(t, newItem(namespace, "item", probeType, probeConfig(traces, "blockUntil")))
	waitCalled(t, traces, "reconcile "+item.Status.JobID)

	replacePlugin(t, dir, "probe")
	pergola(t, "plugins", "reload", "--run-dir", run).expect(t, 1, "probe: not reloaded", "it is not the file that was locked")
	if p := listPlugin(t, run, "probe"); p != before {
		t.Errorf("what was locked does not go on: %+v", p)
	}
	pergola(t, "plugins", "lock", dir, "--run-dir", run).expect(t, 0, "changed probe", "sha256", ", was ")
	if err := syscall.Kill(host.Pid(), syscall.SIGHUP); err != nil { // which does what the command does
		t.Fatal(err)
	}
	eventually(t, "the plugin to be another one", func(context.Context) (string, error) {
		p := listPlugin(t, run, "probe")
		if p.State != "Running" || p.PID == before.PID || p.SHA256 == before.SHA256 {
			return fmt.Sprintf("%+v", p), nil
		}
		return "", nil
	})
	carryOut(t, newItem(namespace, "other", probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)
	touch(t, traces+"/blockUntil")
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	if got := lines(t, traces+"/trace"); len(got) != 1 || !strings.HasSuffix(got[0], strconv.Itoa(before.PID)) {
		t.Errorf("the call that was under way did not go on where it was: %q", got)
	}
}
