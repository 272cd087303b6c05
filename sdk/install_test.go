package sdk_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// installer returns a plugin that is started by hand to install itself.
func installer(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, "plugin")
	cmd.Args = append(append(cmd.Args, "install"), args...)
	return cmd
}

func TestInstall(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{"test": nil, "example.org_other": {"--as", "example.org_other"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, file)
		for range 2 { // as when the init container of a pod is run again
			out, err := installer(t, append([]string{"--to", dir}, args...)...).CombinedOutput()
			if want := "test 1 is installed as " + path + "\n"; err != nil || string(out) != want {
				t.Fatalf("expected %q, but found %q (%v)", want, out, err)
			}
		}
		expectThisProgram(t, dir, file)
	}
}

// The mode does not depend on what whoever runs it has set for other files.
func TestInstallDespiteUmask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := installer(t, "--to", dir)
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", `umask 077; exec "$0" "$@"`)
	shell.Args, shell.Env = append(shell.Args, cmd.Args...), cmd.Env
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expectThisProgram(t, dir, "test")
}

func TestInstallHelp(t *testing.T) {
	t.Parallel()
	out, err := installer(t, "--help").Output()
	const want = "test install --to DIR [--as NAME]: " +
		"copies test into the plugin directory DIR of a host, as test or NAME\n"
	if err != nil || string(out) != want {
		t.Errorf("expected %q, but found %q (%v)", want, out, err)
	}
}

func TestInstallIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const usage = "; usage: test install --to DIR [--as NAME]"
	for _, test := range []struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		{"nothing is said", nil, 2, "--to: expected the plugin directory of a host, but found nothing" + usage},
		{
			"there is too much", []string{"--to", dir, "more"}, 2,
			`expected nothing but --to and --as, but found "more"` + usage,
		},
		{"a flag is unknown", []string{"--from", dir}, 2, "flag provided but not defined: -from" + usage},
		{"hosts ignore it", []string{"--to", dir, "--as", ".a"}, 2, `as hosts pass over those, but found ".a"` + usage},
		{"there is no directory", []string{"--to", dir + "/none"}, 1, "create it, or mount a volume there"},
	} {
		cmd := installer(t, test.args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if code := exitCode(err); code != test.code || len(out) > 0 {
			t.Errorf("%s: expected exit code %d, but found %d (%v), stdout %q", test.reason, test.code, code, err, out)
		}
		got := stderr.String()
		if !strings.HasPrefix(got, "test cannot be installed: ") || !strings.HasSuffix(got, test.want+"\n") {
			t.Errorf("%s: expected %q, but found %q", test.reason, test.want, got)
		}
	}
}

// Whoever may not write the directory learns who may not, and leaves nothing there.
func TestInstallWithoutTheRight(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a program as somebody else")
	}
	dir, err := os.MkdirTemp("", "install-") //nolint:usetesting // the other user finds no way into that of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := installer(t, "--to", dir, "--as", "program").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := installer(t, "--to", dir)
	cmd.Path, cmd.Dir = filepath.Join(dir, "program"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err := cmd.CombinedOutput()
	const want = "permission denied; user 65532, who this is, must be able to write the directory\n"
	if exitCode(err) != 1 || !strings.HasSuffix(string(out), want) {
		t.Errorf("expected %q, but found %q (%v)", want, out, err)
	}
	expectThisProgram(t, dir, "program")
}

// expectThisProgram expects one file in the directory, which is this program.
func expectThisProgram(t *testing.T, dir, file string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != file || entries[0].Type() != 0 {
		t.Fatalf("expected nothing but a file %s, but found %v (%v)", file, entries, err)
	}
	info, err := entries[0].Info()
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o555 {
		t.Errorf("expected mode 0555, but found %s", info.Mode())
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, wantErr := os.ReadFile(program)
	got, gotErr := os.ReadFile(filepath.Join(dir, file))
	if err := errors.Join(wantErr, gotErr); err != nil || !bytes.Equal(want, got) {
		t.Errorf("the file has %d bytes that are not the %d of this program (%v)", len(got), len(want), err)
	}
}
