package sandbox

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"io"
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
			// Not closed by exec, as what a host may have from whoever started it.
			const leaky = 300
			if err := unix.Dup2(int(pipe.Fd()), leaky); err != nil {
				t.Fatal(err)
			}
			defer unix.Close(leaky)
			score, err := oomScore()
			if err != nil {
				t.Fatal(err)
			}

			got := runs[selfReport](t, Spec{
				Path:        "/no/such/path",
				Env:         []string{"A=1", "B=\xff"},
				ExtraFiles:  []*os.File{pipe, other},
				Confinement: as.mode,
			}, &syscall.SysProcAttr{Credential: as.user}, "self", "x", "", "ü\xfe")
			want := selfReport{
				Args:       []string{"/no/such/path", "x", "", "ü\ufffd"}, // JSON's doing
				Env:        []string{"A=1", "B=\ufffd"},
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

// Anybody on the machine can read the arguments of a process, and its user the environment.
func TestLauncherKeepsItsOrdersToItself(t *testing.T) {
	l, err := Command(t.Context(), Spec{Program: testBinary(t), Path: "p", Args: []string{"secret"}, Env: []string{"A=secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{launcherName}, {}}, [][]string{l.Cmd.Args, l.Cmd.Env}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
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
		want    error
		says    string
	}{
		{"its interpreter is not there", file("#!/no/such/interpreter\n", 0o755), Off, fs.ErrNotExist, "interpreter that its first line names"},
		{"nor is it to a confined one", file("#!/no/such/interpreter\n", 0o755), Auto, fs.ErrNotExist, "interpreter that its first line names"},
		{"it is not executable", file("#!/bin/sh\n", 0o644), Off, fs.ErrPermission, "permission denied"},
		{"it is no program", file("hello", 0o755), Off, syscall.ENOEXEC, "neither a script nor a program"},
		{"it is empty", file("", 0o755), Off, syscall.ENOEXEC, "neither a script nor a program"},
		{"it is a directory", dir, Off, syscall.EISDIR, "cannot execute it: read its first bytes"},
		{"its interpreter must not be read", file("#!"+copyOf(t, "/bin/sh")+"\n", 0o755), Required, fs.ErrPermission, "outside of what a confined program may read"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			if test.confine == Required {
				needsLandlock(t, 1)
			}
			l, err := Command(t.Context(), Spec{Program: openFile(t, test.path), Path: test.path, Confinement: test.confine})
			if err != nil {
				t.Fatal(err)
			}
			err = l.Start()
			var startErr *StartError
			if !errors.As(err, &startErr) || startErr.Step != stepExecute || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v that says %q", err, test.want, test.says)
			}
			if l.Cmd.ProcessState == nil {
				t.Error("the launcher was not waited for")
			}
		})
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
	if _, err := output(Spec{Program: openFile(t, path), Path: path}, nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want %v", err, fs.ErrPermission)
	}
}

func TestArgumentsThatCannotBePassed(t *testing.T) {
	_, err := output(Spec{Program: testBinary(t), Path: "p", Args: []string{"a\x00b"}}, nil)
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v, want %v", err, syscall.EINVAL)
	}
	_, err = output(Spec{Program: testBinary(t), Path: "p", Env: []string{"A=" + strings.Repeat("x", 1<<20)}}, nil)
	if !errors.Is(err, syscall.E2BIG) {
		t.Errorf("got %v, want %v", err, syscall.E2BIG)
	}
}

// startSleeper launches a program that sleeps, in a process group of its own. Start must return while it runs, with all descriptors that
// it was given still open.
func startSleeper(t *testing.T) *Launch {
	t.Helper()
	l, err := Command(t.Context(), Spec{Program: testBinary(t), Path: "sleeper", Args: []string{"as", "sleep"}})
	if err != nil {
		t.Fatal(err)
	}
	l.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := l.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Cmd.Wait() }) // it was killed by the end of the test's context
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the program says %q, error %v", line, err)
	}
	return l
}

func TestEndOfContextEndsTheProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Command(ctx, Spec{Program: testBinary(t), Path: "p", Args: []string{"as", "sleep"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	cancel()
	var exit *exec.ExitError
	if err := l.Cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want it to be killed", err)
	}
}

func TestLauncherIsNotForPeople(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{launcherName}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitNotStarted || !strings.Contains(string(out), "not for people to start") {
		t.Errorf("got %v: %s", err, out)
	}
}

// An error is the same to errors.Is on both sides of the pipe.
func TestFailureTravels(t *testing.T) {
	read, write := io.Pipe()
	go func() {
		write.CloseWithError(gob.NewEncoder(write).Encode(newFailure("do it", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES})))
	}()
	var found failure
	if err := gob.NewDecoder(read).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if err := found.cause(); found.Step != "do it" || !errors.Is(err, fs.ErrPermission) || err.Error() != "open /x: permission denied" {
		t.Errorf("got step %q, error %v", found.Step, err)
	}
	if err := newFailure("do it", errors.New("reason")).cause(); err.Error() != "reason" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkStart(b *testing.B) {
	program, err := os.Open("/bin/true")
	if err != nil {
		b.Fatal(err)
	}
	defer program.Close()
	for b.Loop() {
		if _, err := output(Spec{Program: program, Path: "true", Confinement: Auto, MemoryBytes: 1 << 29}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
