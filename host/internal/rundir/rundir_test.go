package rundir

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// otherVariable makes the test binary a process that makes its directory in the base that it reads from its standard input, and lives
// until that ends.
const otherVariable = "RUNDIR_TEST_OTHER"

func TestMain(m *testing.M) {
	if os.Getenv(otherVariable) != "" {
		os.Exit(live())
	}
	os.Exit(m.Run())
}

func live() int {
	stdin := bufio.NewReader(os.Stdin)
	base, err := stdin.ReadString('\n')
	if err != nil {
		return 1
	}
	dir, err := Make(context.Background(), strings.TrimSpace(base))
	if err != nil {
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		return 1
	}
	os.Stdout.WriteString(dir.Path() + "\n")
	_, _ = stdin.ReadString('\n')
	if err := dir.Close(); err != nil {
		return 1
	}
	return 0
}

// other is another process with a directory.
type other struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	path   string
	leave  func() error // ends the process in order, and returns how that went
}

// startOther starts a process and waits until it has made its directory. It is killed at the end of the test at the latest.
func startOther(t *testing.T, base string) *other {
	t.Helper()
	o := beginOther(t, base)
	o.await(t)
	return o
}

// beginOther starts a process that makes its directory.
func beginOther(t *testing.T, base string) *other {
	t.Helper()
	o := &other{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	o.cmd.Env = append(os.Environ(), otherVariable+"=1")
	stdin, err := o.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, base+"\n"); err != nil {
		t.Fatal(err)
	}
	o.stdout = bufio.NewReader(stdout)
	o.leave = func() error { return errors.Join(stdin.Close(), o.cmd.Wait()) }
	return o
}

func (o *other) await(t *testing.T) {
	t.Helper()
	line, err := o.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	o.path = strings.TrimSpace(line)
}

// kill ends the process as kill -9 does.
func (o *other) kill(t *testing.T) {
	t.Helper()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.cmd.Wait() // it was killed
}

// shortDir is a directory with a short path, which those of tests have not.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rundir") //nolint:usetesting // that of tests is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func mustMake(t *testing.T, base string) *Dir {
	t.Helper()
	dir, err := Make(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustClose(t *testing.T, dir *Dir) {
	t.Helper()
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// names are the files in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func TestMake(t *testing.T) {
	t.Parallel()
	base := filepath.Join(shortDir(t), "base")
	dir := mustMake(t, base)
	want := filepath.Join(base, strconv.Itoa(os.Getpid()))
	if dir.Path() != want {
		t.Errorf("expected %s, but found %s", want, dir.Path())
	}
	for _, path := range []string{base, dir.Path()} {
		if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("expected a directory that nobody else can enter, but found %v (%v)", info, err)
		}
	}
	touch(t, filepath.Join(dir.Path(), "sub", "file"))
	if _, err := Make(t.Context(), base); err == nil || !strings.Contains(err.Error(), "--run-dir") {
		t.Errorf("the directory is in use, but the error is: %v", err)
	}
	mustClose(t, dir)
	if found := names(t, base); len(found) > 0 {
		t.Errorf("expected nothing to be left, but found %q", found)
	}
	mustClose(t, mustMake(t, base))
}

// Whoever makes a directory removes those of the dead, and no others.
func TestWhatTheDeadLeaveIsRemoved(t *testing.T) {
	t.Parallel()
	base := filepath.Join(shortDir(t), "base")
	alive, dead := startOther(t, base), startOther(t, base)
	touch(t, filepath.Join(dead.path, "s", "socket"))
	touch(t, filepath.Join(base, gonePrefix+"1", "rest")) // of somebody who died while removing
	touch(t, filepath.Join(base, "notes"))                // somebody else's
	dead.kill(t)

	dir := mustMake(t, base)
	defer mustClose(t, dir)
	if _, err := os.Stat(dead.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a process that was killed is still there: %v", err)
	}
	want := []string{filepath.Base(alive.path), filepath.Base(dir.Path()), "notes"}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, base)); diff != "" {
		t.Errorf("files in the base directory (-want +got):\n%s", diff)
	}
	if err := alive.leave(); err != nil {
		t.Errorf("a process whose neighbour has tidied up: %v", err)
	}
}

// In a container every host has the process id of the one before.
func TestProcessIDIsUsedAgain(t *testing.T) {
	t.Parallel()
	base := filepath.Join(shortDir(t), "base")
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(base, strconv.Itoa(os.Getpid()), "control.sock")
	touch(t, left)
	dir := mustMake(t, base)
	defer mustClose(t, dir)
	if found := names(t, dir.Path()); len(found) > 0 {
		t.Errorf("expected a new directory, but found %q", found)
	}
}

func TestLiving(t *testing.T) {
	t.Parallel()
	base := filepath.Join(shortDir(t), "base")
	if living, err := Living(t.Context(), base); err != nil || living != nil {
		t.Errorf("expected nobody where there is no base, but found %v (%v)", living, err)
	}
	alive, dead := startOther(t, base), startOther(t, base)
	dead.kill(t)
	touch(t, filepath.Join(base, "123abc", "file")) // of nobody that we know
	touch(t, filepath.Join(base, "4711"))

	living, err := Living(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Entry{{Pid: alive.cmd.Process.Pid, Path: alive.path}}, living); diff != "" {
		t.Errorf("living (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(dead.path); err != nil {
		t.Errorf("who only looks removes nothing: %v", err)
	}
}

// Many that start at once do not take each other for dead.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	base := filepath.Join(shortDir(t), "base")
	const many = 8
	var others []*other
	for range many {
		others = append(others, beginOther(t, base))
	}
	for _, o := range others {
		o.await(t)
		if _, err := os.Stat(o.path); err != nil {
			t.Errorf("the directory of a process that lives: %v", err)
		}
		defer o.kill(t)
	}
	living, err := Living(t.Context(), base)
	if err != nil || len(living) != many {
		t.Errorf("expected %d, but found %v (%v)", many, living, err)
	}
}

// Nobody else looks at what is about to change.
func TestUnderLock(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	free, err := underLock(t.Context(), base, func() (bool, error) { return isFree(base) })
	if free || err != nil {
		t.Errorf("expected the base directory to be locked meanwhile, but found it free: %t (%v)", free, err)
	}
	if free, err := isFree(base); !free || err != nil {
		t.Errorf("expected the base directory to be free afterwards, but found it free: %t (%v)", free, err)
	}
}

// Somebody who is stopped with the lock holds nobody up for ever.
func TestWaitingForTheLockEnds(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	lock, free, err := tryLock(base)
	if err != nil || !free {
		t.Fatalf("lock: %t, %v", free, err)
	}
	defer func() { _ = lock.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Make(ctx, base); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), base) {
		t.Errorf("expected the end of the context, and which lock it is, but found: %v", err)
	}
}

func TestBadBase(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	private := filepath.Join(dir, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, create := range map[string]func(path string) error{
		"link":     func(path string) error { return os.Symlink(private, path) },
		"file":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"writable": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o770)) },
	} {
		if err := create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"link": "is no directory", "file": "is no directory", "writable": "may be written by its group or by others (mode 0770)",
		"no/where": "no such file", strings.Repeat("long", 20): "leave room for no more than 60",
	} {
		if _, err := Make(t.Context(), filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected an error with %q, but found: %v", name, want, err)
		}
	}
	if found := names(t, private); len(found) > 0 {
		t.Errorf("something was made behind a link: %q", found)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason      string
		mode        fs.FileMode
		owner, self int
		want        string
	}{
		{reason: "nobody else's", mode: 0o700, owner: 7, self: 7},
		{reason: "others may look, not write", mode: 0o755, owner: 7, self: 7},
		{reason: "its owner could exchange everything", mode: 0o700, owner: 8, self: 7, want: "belongs to the user 8"},
		{reason: "root's is not ours either", mode: 0o755, owner: 0, self: 7, want: "belongs to the user 0"},
		{reason: "the group", mode: 0o720, owner: 7, self: 7, want: "mode 0720"},
		{reason: "everybody", mode: 0o702, owner: 7, self: 7, want: "mode 0702"},
	} {
		err := judge("/base", tc.mode, tc.owner, tc.self)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected %q, but found: %v", tc.reason, tc.want, err)
		}
	}
}

// Children of a process must not keep its directory in use when it is gone.
func TestChildrenDoNotInheritTheLock(t *testing.T) {
	t.Parallel()
	dir := mustMake(t, filepath.Join(shortDir(t), "base"))
	child := exec.CommandContext(t.Context(), "sleep", "600")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(child.Process.Kill(), child.Wait()) }()
	base := filepath.Dir(dir.Path())
	if err := dir.lock.Close(); err != nil { // as the end of the process does
		t.Fatal(err)
	}
	if living, err := Living(t.Context(), base); err != nil || len(living) > 0 {
		t.Errorf("expected nobody, but found %v (%v)", living, err)
	}
}

func TestDefaultBase(t *testing.T) {
	t.Setenv("TMPDIR", "/somewhere")
	if want := "/somewhere/pergola-" + strconv.Itoa(os.Geteuid()); DefaultBase() != want {
		t.Errorf("expected %s, but found %s", want, DefaultBase())
	}
}
