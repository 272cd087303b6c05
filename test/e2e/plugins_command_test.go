package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const helloType = "example.org/hello"

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
	File, Name, SHA256, State, Problem, Confinement string
	PID                                             int
	MemoryBytes                                     uint64
	Restarts                                        map[string]int
}

// listPlugins lists the plugins of a host by their files.
func listPlugins(t *testing.T, runDir string) map[string]listed {
	t.Helper()
	out := pergola(t, "plugins", "list", "--run-dir", runDir, "-o", "json")
	if out.code != 0 {
		t.Fatalf("list plugins: %s", out.stderr)
	}
	var content struct{ Plugins []listed }
	if err := json.Unmarshal([]byte(out.stdout), &content); err != nil {
		t.Fatal(err)
	}
	plugins := map[string]listed{}
	for _, p := range content.Plugins {
		plugins[p.File] = p
	}
	return plugins
}

// replacePlugin puts another build of a plugin in the place of one, as an operator does.
func replacePlugin(t *testing.T, dir, file string) {
	t.Helper()
	path := filepath.Join(dir, file)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(dir, ".next")
	if err := os.WriteFile(next, append(content, '\n'), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// A reload gives a plugin whose file has changed a new process. The call that the old one is at goes on there, and the others nowhere else.
func TestReplacedPlugin(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "mock", "manifest", "probe")
	startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run})
	namespace, traces := newNamespace(t), t.TempDir()
	before := listPlugins(t, run)
	for _, file := range []string{"mock", "manifest", "probe"} {
		p := before[file]
		if p.State != "Running" || p.Name != file || !running(p.PID) || p.MemoryBytes == 0 || len(p.SHA256) != 64 || p.Confinement == "" {
			t.Errorf("the list does not say what there is to say of %s: %+v", file, p)
		}
	}
	pergola(t, "plugins", "list", "--run-dir", run).expect(t, 0, "FILE", "CONFINEMENT", "manifest", strconv.Itoa(before["mock"].PID), before["mock"].SHA256[:12])

	underWay := newItem(namespace, "under-way", probeType, probeConfig(traces, "blockUntil"))
	create(t, underWay)
	job := setJob(t, underWay)
	eventually(t, "the call to be under way", func(context.Context) (string, error) {
		return missing(lines(t, filepath.Join(traces, "trace")), "reconcile "+job), nil
	})
	replacePlugin(t, dir, "probe")

	reloaded := pergola(t, "plugins", "reload", "--run-dir", run)
	reloaded.expect(t, 0)
	if reloaded.stdout != "probe: restarted\n" {
		t.Errorf("expected what was done and nothing more, but found %q", reloaded.stdout)
	}
	after := listPlugins(t, run)
	if p := after["probe"]; p.State != "Running" || p.PID == before["probe"].PID || p.SHA256 == before["probe"].SHA256 || p.Restarts["reload"] != 1 {
		t.Errorf("the plugin is not another one: %+v", p)
	}
	if after["mock"].PID != before["mock"].PID || after["manifest"].PID != before["manifest"].PID {
		t.Error("a plugin that has not changed was started again")
	}

	other := t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(other))
	create(t, item)
	next := setJob(t, item)
	waitFinished(t, item, next)
	if line := fmt.Sprintf("reconcile %s %d", next, after["probe"].PID); missing(lines(t, filepath.Join(other, "trace")), line) != "" {
		t.Errorf("the new process has not worked on the new item: %q", lines(t, filepath.Join(other, "trace")))
	}
	touch(t, filepath.Join(traces, "blockUntil"))
	finished := waitFinished(t, underWay, job)
	if finished.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("the call that was under way: %s", describe(finished))
	}
	if got := lines(t, filepath.Join(traces, "trace")); !slices.Equal(got, []string{fmt.Sprintf("reconcile %s %d", job, before["probe"].PID)}) {
		t.Errorf("the call that was under way did not go on where it was: %q", got)
	}
	eventually(t, "the old process to end", func(context.Context) (string, error) {
		if running(before["probe"].PID) {
			return "it runs", nil
		}
		return "", nil
	})
}

// SIGHUP does what the command does.
func TestHangUp(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "mock", "manifest")
	host := startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run})
	namespace := newNamespace(t)
	addPlugin(t, dir, "hello", "hello")
	if err := os.Remove(filepath.Join(dir, "manifest")); err != nil {
		t.Fatal(err)
	}
	if plugins := listPlugins(t, run); len(plugins) != 2 {
		t.Errorf("what happens in the directory is picked up by itself: %v", plugins)
	}

	if err := host.HangUp(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the added plugin to be there and the removed one to be gone", func(context.Context) (string, error) {
		plugins := listPlugins(t, run)
		if _, there := plugins["manifest"]; there || plugins["hello"].State != "Running" || len(plugins) != 2 {
			return fmt.Sprint(plugins), nil
		}
		return "", nil
	})
	carryOut(t, newItem(namespace, "hello", helloType, helloConfig), v1alpha1.DeployItemPhaseSucceeded)
	carryOut(t, newItem(namespace, "mock", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)
}

const helloConfig = `{"apiVersion":"example.org/v1","kind":"Hello","greeting":"hi"}`

// What a reload cannot do is said, and what runs goes on.
func TestReloadOfSomethingBad(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "mock")
	startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run})
	before := listPlugins(t, run)["mock"]

	pergola(t, "plugins", "reload", "--run-dir", run).expect(t, 0, "Nothing has changed.")
	pergola(t, "plugins", "reload", "--run-dir", run, "mock").expect(t, 0, "mock: restarted")
	if again := listPlugins(t, run)["mock"]; again.PID == before.PID {
		t.Error("the plugin that was named was not started again")
	}
	if err := os.WriteFile(filepath.Join(dir, ".next"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, ".next"), filepath.Join(dir, "mock")); err != nil {
		t.Fatal(err)
	}
	pergola(t, "plugins", "reload", "--run-dir", run, "mistyped").expect(t, 1,
		"mistyped: not reloaded", "there is no plugin of this name", "mock: not reloaded", "is no Pergola plugin", "error: not everything was reloaded")
	if p := listPlugins(t, run)["mock"]; p.State != "Running" || !running(p.PID) {
		t.Errorf("the plugin that ran before does not go on: %+v", p)
	}
	carryOut(t, newItem(newNamespace(t), "mock", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)
}

// A program that is not the one that was locked is refused, wherever it is looked at, until it is locked.
func TestLockedPlugins(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "mock", "manifest")
	lock := filepath.Join(dir, "plugins.lock")
	pergola(t, "plugins", "lock", dir, "--run-dir", run).expect(t, 0, "added manifest", "added mock", "types "+mockType, lock+" is written")
	pergola(t, "plugins", "lock", dir, "--run-dir", run).expect(t, 0, "is up to date")

	config := writeConfig(t, anyConfig+fmt.Sprintf("pluginVerification: {lockFile: %q}\n", lock))
	host := startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run, Config: config})
	before := listPlugins(t, run)["mock"]
	replacePlugin(t, dir, "mock")
	pergola(t, "plugins", "verify", dir, "--config", config, "--run-dir", run).expect(t, 1,
		"manifest: good", "mock: BAD", "its sha256 is", "it is not the file that was locked", "not checked")
	pergola(t, "plugins", "list", "--plugin-dir", dir, "--config", config, "--run-dir", run).expect(t, 1, "Refused", "it is not the file that was locked", "1 of 2 plugins do not run: mock")
	pergola(t, "plugins", "reload", "--run-dir", run).expect(t, 1, "mock: not reloaded", "it is not the file that was locked")
	if p := listPlugins(t, run)["mock"]; p.State != "Running" || p.SHA256 != before.SHA256 {
		t.Errorf("what was locked does not go on: %+v", p)
	}

	touch(t, lock+".minisig")
	pergola(t, "plugins", "lock", dir, "--run-dir", run).expect(t, 0, "changed mock", "sha256", ", was ", "Sign it anew: minisign -Sm "+lock)
	pergola(t, "plugins", "reload", "--run-dir", run).expect(t, 0, "mock: restarted")
	if p := listPlugins(t, run)["mock"]; p.State != "Running" || p.Restarts["reload"] != 1 {
		t.Errorf("the plugin that was locked does not run in the place of the one before: %+v", p)
	}

	locked, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lock, regexp.MustCompile(`(?s)- file: "mock".*`).ReplaceAll(locked, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	pergola(t, "plugins", "reload", "--run-dir", run).expect(t, 1, "mock: refused")
	eventually(t, "readiness to name the plugin that is not locked any more", func(ctx context.Context) (string, error) {
		if text := describeError(host.Ready(ctx)); !strings.Contains(text, "plugin mock: ") || !strings.Contains(text, "is not in the lock file") {
			return text, nil
		}
		return "", nil
	})
}

// A directory in which one plugin is not as it must be is not locked at all, and verify names each that is not.
func TestBadDirectory(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "mock", "twin", "hello")
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pergola(t, "plugins", "lock", dir, "--run-dir", run).expect(t, 1,
		"plugin mock: ", "plugin twin: ", "is claimed by mock and twin", "plugin script: is no Pergola plugin", "the lock file was not written")
	if _, err := os.Stat(filepath.Join(dir, "plugins.lock")); !os.IsNotExist(err) {
		t.Errorf("a lock file was written: %v", err)
	}
	pergola(t, "plugins", "lock", dir, "--run-dir", run, "--lock-file", filepath.Join(dir, "lock")).expect(t, 1, "is called plugins.lock")
	item := writeItem(t, "example.org/nobody", `{"a":1}`)
	pergola(t, "plugins", "verify", dir, "--run-dir", run, "--item", item).expect(t, 1, "no plugin that runs serves its type")
	pergola(t, "plugins", "verify", dir, "--run-dir", run, "--item", writeItem(t, helloType, helloConfig)).expect(t, 1,
		"hello: good", "mock: BAD", "twin: BAD", "is claimed by mock and twin", "script: BAD", "handshake-line")
}

// What a host that is killed leaves behind, the next one removes.
func TestKilledHostLeavesNothing(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "mock", "manifest")
	host := startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run})
	second := startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run})
	pergola(t, "plugins", "list", "--run-dir", run).expect(t, 1, "several hosts are running", strconv.Itoa(host.Pid()), strconv.Itoa(second.Pid()), "--pid")
	pergola(t, "plugins", "list", "--run-dir", run, "--pid", strconv.Itoa(second.Pid())).expect(t, 0, "manifest")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := second.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	orphans := listPlugins(t, run)
	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	for file, p := range orphans {
		eventually(t, "the orphan "+file+" to end", func(context.Context) (string, error) {
			if running(p.PID) {
				return "it runs", nil
			}
			return "", nil
		})
	}
	left := filepath.Join(run, strconv.Itoa(host.Pid()))
	if _, err := os.Stat(left); err != nil {
		t.Errorf("a host that is killed has nobody to tidy up: %v", err)
	}
	pergola(t, "plugins", "list", "--run-dir", run).expect(t, 1, "no host of this user is running", "--plugin-dir")

	third := startReadyHost(t, testenv.HostOptions{PluginDir: dir, RunDir: run})
	entries, err := os.ReadDir(run)
	if err != nil || len(entries) != 1 || entries[0].Name() != strconv.Itoa(third.Pid()) {
		t.Errorf("expected the directory of the new host and nothing else, but found %v (%v)", entries, err)
	}
}

// writeItem writes a DeployItem and returns its path.
func writeItem(t *testing.T, itemType, config string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "item.json")
	text := fmt.Sprintf(`{"apiVersion":"landscaper.gardener.cloud/v1alpha1","kind":"DeployItem","metadata":{"name":"item"},"spec":{"type":%q,"config":%s}}`, itemType, config)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A plugin can be tried without a cluster: one call, and a job from beginning to end.
func TestRunPlugin(t *testing.T) {
	run, plugins, traces := runDir(t), pluginDir(t, "mock", "probe"), t.TempDir()
	file := func(name string) string { return filepath.Join(plugins, name) }
	config := writeConfig(t, anyConfig)

	pergola(t, "plugins", "run", file("mock"), "--run-dir", run, "--item", writeItem(t, mockType, fmt.Sprintf(mockConfig, `,"export":{"a":1}`))).
		expect(t, 0, "succeeded", `exports {"a":1}`)
	pergola(t, "plugins", "run", file("mock"), "--run-dir", run, "--item", writeItem(t, mockType, mockFails)).
		expect(t, 1, "failed", "error: Reconcile of item item has failed")
	pergola(t, "plugins", "run", file("mock"), "--run-dir", run, "--item", writeItem(t, helloType, helloConfig)).expect(t, 1, helloType, mockType)
	pergola(t, "plugins", "run", file("nothing"), "--run-dir", run, "--item", writeItem(t, mockType, mockFails)).expect(t, 1, "there is no such plugin")
	crashing := writeItem(t, probeType, probeConfig(traces, "crashUnless"))
	pergola(t, "plugins", "run", file("probe"), "--run-dir", run, "--config", config, "--item", crashing).expect(t, 1, "the plugin ended in the middle of a call")

	item, state := writeItem(t, probeType, probeConfig(traces, "waitFor")), filepath.Join(t.TempDir(), "state.json")
	args := []string{"plugins", "run", file("probe"), "--run-dir", run, "--config", config, "--item", item, "--state", state}
	pergola(t, args...).expect(t, 0, "inProgress", "waits for the file")
	done := make(chan printed, 1)
	go func() { done <- pergola(t, append(args, "--until-done")...) }()
	eventually(t, "the second run to have called", func(context.Context) (string, error) {
		if calls := lines(t, filepath.Join(traces, "trace")); len(calls) < 3 {
			return fmt.Sprint(calls), nil
		}
		return "", nil
	})
	touch(t, filepath.Join(traces, "waitFor"))
	second := <-done
	second.expect(t, 0, "succeeded")
	calls := lines(t, filepath.Join(traces, "trace"))
	if first, last := strings.Fields(calls[1]), strings.Fields(calls[len(calls)-1]); first[1] != last[1] {
		t.Errorf("the second run was for another job: %q", calls)
	}
	pergola(t, append(args, "--operation", "delete")...).expect(t, 0, "succeeded")
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the item is deleted, but its state is still there: %v", err)
	}
	pergola(t, append(args, "--operation", "dance")...).expect(t, 1, "--operation", "dance")
}

// A plugin that was started in a debugger can be tried, verified, and used by a host, and outlives them all.
func TestAttach(t *testing.T) {
	run := runDir(t)
	plugin := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(binaries, "test", "hello"), "attachable")
	plugin.Env = append(os.Environ(), "TMPDIR="+run)
	stdout, err := plugin.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(plugin.Process.Signal(syscall.SIGTERM), plugin.Wait()); err != nil {
			t.Errorf("the plugin did not end in order: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address := regexp.MustCompile(`unix:///\S+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("the plugin does not say how to attach to it: %q, %v", line, err)
	}
	item := writeItem(t, helloType, helloConfig)

	pergola(t, "plugins", "run", "--attach", address, "--run-dir", run, "--item", item).expect(t, 0, "succeeded")
	pergola(t, "plugins", "verify", "--attach", address, "--run-dir", run, "--item", item).expect(t, 0, address+": good")
	pergola(t, "plugins", "run", "--attach", "/no/address", "--run-dir", run, "--item", item).expect(t, 1, `unix:///`, `found "/no/address"`)
	pergola(t, "plugins", "verify", "--attach", address, "dir").expect(t, 2, "found both")
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock"), RunDir: run, Args: []string{"--attach", address}})
	namespace := newNamespace(t)
	carryOut(t, newItem(namespace, "hello", helloType, helloConfig), v1alpha1.DeployItemPhaseSucceeded)
	carryOut(t, newItem(namespace, "mock", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)
	pergola(t, "plugins", "list", "--run-dir", run).expect(t, 0, address, "none")
}
