package sdk_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
)

// installer returns a plugin that is started by hand to install itself.
func installer(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := helper(t, "plugin")
	cmd.Args = append(append(cmd.Args, sdk.InstallArgument), args...)
	return cmd
}

func TestInstall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		prepare func(t *testing.T, dir string)
		args    []string
		file    string
	}{
		{reason: "the directory is empty", file: "test"},
		{reason: "it is to be called otherwise", args: []string{"--as", "example.org_other"}, file: "example.org_other"},
		{
			reason: "an older one is there, which others may write", file: "test",
			prepare: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "test"), 0o666) },
		},
		{
			reason: "a link is in its place, which must not be followed", file: "test",
			prepare: func(t *testing.T, dir string) {
				if err := os.Symlink("/dev/null", filepath.Join(dir, "test")); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if test.prepare != nil {
				test.prepare(t, dir)
			}
			path := filepath.Join(dir, test.file)
			for range 2 { // as when the init container of a pod is run again
				out, err := installer(t, append([]string{"--to", dir}, test.args...)...).CombinedOutput()
				if want := "test 1 is installed as " + path + "\n"; err != nil || string(out) != want {
					t.Fatalf("expected %q, but found %q (%v)", want, out, err)
				}
			}
			expectThisProgram(t, dir, test.file)
		})
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
	if want := "test install --to DIR [--as NAME]: copies test into the plugin directory DIR of a host, as test or NAME\n"; err != nil || string(out) != want {
		t.Errorf("expected %q, but found %q (%v)", want, out, err)
	}
}

func TestInstallIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, 0o600)
	if err := os.Mkdir(filepath.Join(dir, "test"), 0o700); err != nil {
		t.Fatal(err)
	}
	const usage = "; usage: test install --to DIR [--as NAME]"
	for _, test := range []struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		{"nothing is said", nil, 2, "--to: expected the plugin directory of a host, but found nothing" + usage},
		{"no directory is said", []string{"--to"}, 2, "flag needs an argument: -to" + usage},
		{"there is too much", []string{"--to", dir, "more"}, 2, `expected nothing but --to and --as, but found "more"` + usage},
		{"a flag is unknown", []string{"--from", dir}, 2, "flag provided but not defined: -from" + usage},
		{"hosts pass over hidden files", []string{"--to", dir, "--as", ".hidden"}, 2, `as hosts pass over those, but found ".hidden"` + usage},
		{"a name leads elsewhere", []string{"--to", dir, "--as", "../test"}, 2, `as hosts pass over those, but found "../test"` + usage},
		{"the name is empty", []string{"--to", dir, "--as", ""}, 2, `as hosts pass over those, but found ""` + usage},
		{"the name is too long", []string{"--to", dir, "--as", strings.Repeat("a", 250)}, 1, "file name too long; choose a shorter name"},
		{"there is nothing", []string{"--to", dir + "/none"}, 1, "expected a directory, but found nothing at " + dir + "/none; create it, or mount a volume there"},
		{"it is a file", []string{"--to", file}, 1, "expected a directory, but " + file + " is a file; name the directory that the file is to be put into"},
		{"its place is a directory", []string{"--to", dir}, 1, "expected a file or nothing at " + dir + "/test, but found a directory; remove it, or choose another name"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			cmd := installer(t, test.args...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if code := exitCode(err); code != test.code || len(out) > 0 {
				t.Errorf("expected exit code %d, but found %d (%v), stdout %q", test.code, code, err, out)
			}
			if got := stderr.String(); !strings.HasPrefix(got, "test cannot be installed: ") || !strings.HasSuffix(got, test.want+"\n") {
				t.Errorf("expected %q, but found %q", test.want, got)
			}
		})
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
	if want := "permission denied; user 65532, who this is, must be able to write the directory\n"; exitCode(err) != 1 || !strings.HasSuffix(string(out), want) {
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
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("the file has %d bytes that are not the %d of this program", len(got), len(want))
	}
}

func write(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte("something else"), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
