package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// TestVerifiedPlugins: what the list of a directory prints is a configuration by which a host runs these programs, and
// no others.
func TestVerifiedPlugins(t *testing.T) {
	dir := pluginDir(t, "probe")
	list := []string{"plugins", "list", "--plugin-dir", dir}
	sums := pergola(t, append(list, "-o", "yaml")...)
	sums.expect(t, 0, "verification: required\n", "  probe:\n    sha256: ")
	config := writeConfig(t, anyConfig+sums.stdout)
	startReadyHost(t, testenv.HostOptions{PluginDir: dir, Config: config})

	probe := filepath.Join(dir, "probe")
	content, err := os.ReadFile(probe)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(probe), os.WriteFile(probe, append(content, '\n'), 0o755)); err != nil {
		t.Fatal(err)
	}
	refused := "of plugins.probe in the host configuration, but that of probe is"
	pergola(t, append(list, "--config", config)...).expect(t, 1, "Refused", refused)
	host := startHost(t, testenv.HostOptions{PluginDir: dir, Config: config})
	eventually(t, "the host to refuse it", func(ctx context.Context) (string, error) {
		if err := host.Ready(ctx); err == nil || !strings.Contains(err.Error(), refused) {
			return fmt.Sprint(err), nil
		}
		return "", nil
	})
}
