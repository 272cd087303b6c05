package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// TestVerifiedPlugins: what the list of a directory prints is a configuration by which a host runs these programs, and no others.
func TestVerifiedPlugins(t *testing.T) {
	run, dir := runDir(t), pluginDir(t, "probe")
	list := []string{"plugins", "list", "--plugin-dir", dir, "--run-dir", run}
	sums := pergola(t, append(list, "-o", "yaml")...)
	sums.expect(t, 0, "verification: required\n", "  probe:\n    sha256: ")
	config := writeConfig(t, anyConfig+sums.stdout)
	startReadyHost(t, testenv.HostOptions{PluginDir: dir, Config: config, Args: []string{"--run-dir", run}})

	replacePlugin(t, dir, "probe")
	pergola(t, append(list, "--config", config)...).expect(t, 1, "Refused", "of plugins.probe in the host configuration, but that of probe is ")
}
