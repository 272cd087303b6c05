package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// nobody is a user without rights.
const nobody = 65532

func TestProgramGetsWhatItIsGiven(t *testing.T) {
	for name, as := range map[string]struct {
		user *syscall.Credential
		mode Mode
	}{
		"as this user":                      {nil, Auto},
		"as this user, without confinement": {nil, Off},
		"as a user without rights":          {&syscall.Credential{Uid: nobody, Gid: nobody}, Auto},
	} {
		t.Run(name, func(t *testing.T) {
			uid := os.Getuid()
			if as.user != nil {
				if uid != 0 {
					t.Skip("only root may start a program as another user")
				}
				uid = nobody
			}
			pipe, other, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			defer other.Close()
			score, err := oomScore()
			if err != nil {
				t.Fatal(err)
			}

			got := runs[selfReport](t, Spec{
				Path:        "/no/such/path",
				Env:         []string{"A=1"},
				ExtraFiles:  []*os.File{pipe, other},
				Confinement: as.mode,
			}, &syscall.SysProcAttr{Credential: as.user}, "self", "x", "", "ü")
			want := selfReport{
				Args:       []string{"/no/such/path", "x", "", "ü"},
				Env:        []string{"A=1"},
				Inherited:  []int{0, 1, 2, 3, 4},
				Stdin:      os.DevNull,
				NoNewPrivs: true,
				OOMScore:   min(score+500, 1000),
				UID:        uid,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMemoryLimitReachesTheGarbageCollector(t *testing.T) {
	for _, test := range []struct {
		reason string
		env    []string
		memory uint64
		want   []string
	}{
		{"without a limit there is nothing to tell", []string{"A=1"}, 0, []string{"A=1"}},
		{"nine tenths of it", []string{"A=1"}, 1000, []string{"A=1", "GOMEMLIMIT=900"}},
		{"what the operator has set stays", []string{"GOMEMLIMIT=off"}, 1000, []string{"GOMEMLIMIT=off"}},
	} {
		if diff := cmp.Diff(test.want, withMemoryLimit(test.env, test.memory)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestOpenFileIsWhatRuns(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "plugin"), "#!/bin/sh\necho looked at\n", 0o755)
	program := openFile(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "#!/bin/sh\necho smuggled in\n", 0o755)
	got, err := output(Spec{Program: program, Path: path, Confinement: Auto}, nil)
	if err != nil || got != "looked at\n" {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestScriptGetsItsArgumentsAndOneDescriptor(t *testing.T) {
	script := writeFile(t, filepath.Join(t.TempDir(), "plugin"), `#!/bin/sh
echo $0 $1
for fd in 0 1 2 3 4 5 6 7 8 9; do [ ! -e /proc/$$/fd/$fd ] || echo $fd; done
`, 0o755)
	got, err := output(Spec{Program: openFile(t, script), Path: script, Args: []string{"argument"},
		ExtraFiles: []*os.File{openFile(t, os.DevNull)}}, nil)
	// 3 is the extra file, 4 the script.
	if want := "/proc/self/fd/4 argument\n0\n1\n2\n3\n4\n"; err != nil || got != want {
		t.Errorf("got %q, want %q, error %v", got, want, err)
	}
}

func TestProgramsThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	file := func(text string, mode fs.FileMode) string {
		return writeFile(t, filepath.Join(dir, strconv.Itoa(len(text))+"-"+mode.String()), text, mode)
	}
	for _, test := range []struct {
		reason  string
		path    string
		confine Mode
		says    string
	}{
		{"its interpreter is not there", file("#!/no/such/interpreter\n", 0o755), Off,
			"interpreter in its first line"},
		{"nor is it to a confined one", file("#!/no/such/interpreter\n", 0o755), Auto,
			"interpreter in its first line"},
		{"it is not executable", file("#!/bin/sh\n", 0o644), Off, "permission denied"},
		{"it is no program", file("hello", 0o755), Off, "is no program for this machine"},
		{"it is a directory", dir, Off, "cannot read its first bytes"},
		{"its interpreter must not be read", file("#!"+copyOf(t, "/bin/sh")+"\n", 0o755), Required,
			"unreadable for a confined program"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			if test.confine == Required {
				needsLandlock(t, 1)
			}
			expectNotStarted(t, Spec{Program: openFile(t, test.path), Path: test.path, Confinement: test.confine}, test.says)
		})
	}
}

// expectNotStarted expects that a launcher cannot execute a program, and says why.
func expectNotStarted(t *testing.T, spec Spec, says string) {
	t.Helper()
	_, err := output(spec, nil)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() < ExitNotStarted || !strings.Contains(err.Error(), says) {
		t.Errorf("expected that it is not started because of %q, but found: %v", says, err)
	}
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, filepath.Join(t.TempDir(), "copy"), string(text), 0o755)
}

func TestNothingRunsFromNoexec(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC, "size=64k"); err != nil {
		t.Skipf("needs the right to mount a file system: %s", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	path := writeFile(t, filepath.Join(dir, "plugin"), "#!/bin/sh\n", 0o755)
	expectNotStarted(t, Spec{Program: openFile(t, path), Path: path}, "mounted noexec, where nothing can be run")
}

func TestLauncherIsNotForPeople(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{launcherName, "help"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != ExitNotStarted || !strings.Contains(string(out),
		"must not be run directly") {
		t.Errorf("got %v: %s", err, out)
	}
}
