package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"pgregory.net/rapid"
)

func TestLimitsAreInForce(t *testing.T) {
	shell := openFile(t, "/bin/sh")
	got, err := output(Spec{Program: shell, Path: "sh", Args: []string{"-c", "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc; ulimit -Sd; ulimit -Hd"},
		OpenFiles: 77, MemoryBytes: 64 << 20, Confinement: Auto}, nil)
	data := strconv.Itoa((2*64 + 512) << 10) // the shell counts in KiB
	if want := strings.Join([]string{"77", "77", "0", "0", data, data, ""}, "\n"); err != nil || got != want {
		t.Errorf("got %q, want %q, error %v", got, want, err)
	}
}

// Go raises the limit of open files for itself. A program must get what this process got.
func TestOriginalLimitOfOpenFilesIsPassedOn(t *testing.T) {
	const soft = "123"
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "ulimit -Hn >&2; ulimit -Sn "+soft+"; exec "+test+" as host").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	hard, got, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if want := fmt.Sprintf("[%q,%q]", soft, hard); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A limit is no permission: one that is lower already stays.
func TestLimitIsNotRaised(t *testing.T) {
	if got := lowered(unix.Rlimit{Cur: 10, Max: 20}, 30); got != (unix.Rlimit{Cur: 20, Max: 20}) {
		t.Errorf("got %v", got)
	}
	if got := lowered(unix.Rlimit{Cur: 10, Max: unix.RLIM_INFINITY}, 5); got != (unix.Rlimit{Cur: 5, Max: 5}) {
		t.Errorf("got %v", got)
	}
}

func TestLeakEndsAtTheBackstop(t *testing.T) {
	leak := filepath.Join(t.TempDir(), "leak")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", leak, "./testdata/leak")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	const memory = 16 << 20
	_, err := output(Spec{Program: openFile(t, leak), Path: "leak", MemoryBytes: memory, Env: []string{"GOMEMLIMIT=off"}}, nil)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 { // of Go's runtime, which mostly says "out of memory"
		t.Fatalf("got %v, want Go's runtime to give up", err)
	}
	peak := uint64(exit.SysUsage().(*syscall.Rusage).Maxrss) << 10
	if limit := dataLimit(memory); peak < limit/2 || peak > limit+64<<20 { // its code is resident, but no data
		t.Errorf("%d bytes were resident, and the limit is %d", peak, limit)
	}
}

func TestResidentMemoryOfGroup(t *testing.T) {
	l := startSleeper(t)
	pid := l.Cmd.Process.Pid
	own, err := ResidentBytes(pid)
	if err != nil || own < 1<<20 || own > 1<<34 {
		t.Fatalf("got %d bytes, error %v", own, err)
	}
	group, err := GroupResidentBytes(pid)
	if err != nil || group < 1<<20 || group > 1<<34 {
		t.Errorf("got %d bytes for the group and %d for its only process, error %v", group, own, err)
	}
	if err := l.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.Cmd.Wait() // it says that it was killed
	if _, err := ResidentBytes(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that is gone: %v", err)
	}
	if group, err := GroupResidentBytes(pid); err != nil || group != 0 {
		t.Errorf("a group that is gone: %d bytes, error %v", group, err)
	}
}

// A session of its own takes a process out of the group, but not out of the limit.
func TestResidentMemoryOfDescendants(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "as", "deserted")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var deserter int
	_, err = fmt.Fscan(stdout, &deserter)
	t.Cleanup(func() {
		if deserter > 0 {
			_ = syscall.Kill(deserter, syscall.SIGKILL) // it may have ended
		}
		_ = cmd.Wait() // it was killed by the end of the test's context
	})
	if err != nil {
		t.Fatal(err)
	}
	if session, err := unix.Getsid(deserter); err != nil || session != deserter {
		t.Fatalf("expected process %d to have a session of its own, but found %d, %v", deserter, session, err)
	}
	parent, parentErr := ResidentBytes(cmd.Process.Pid)
	child, childErr := ResidentBytes(deserter)
	both, err := GroupResidentBytes(cmd.Process.Pid)
	if err := errors.Join(parentErr, childErr, err); err != nil {
		t.Fatal(err)
	}
	if both < parent+child/2 { // they are still starting up, and may give back something
		t.Errorf("got %d bytes for a group, and %d for its process with %d for the child of that one", both, parent, child)
	}
}

// deserted has a child that leaves its process group and says its number.
func deserted([]string) (any, error) {
	child := exec.CommandContext(context.Background(), "/proc/self/exe", "as", "sleep")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil { // which it says when it runs
		return nil, err
	}
	fmt.Fprintln(os.Stdout, child.Process.Pid)
	return nil, child.Wait()
}

func TestWhoCountsForGroup(t *testing.T) {
	for _, test := range []struct {
		reason    string
		processes map[int]stat
		want      uint64
	}{
		{"nobody", nil, 0},
		{"others", map[int]stat{1: {0, 1, 1}, 2: {1, 2, 2}}, 0},
		{"leader and member", map[int]stat{1: {0, 1, 1}, 7: {1, 7, 2}, 8: {7, 7, 4}}, 6},
		{"a member without its leader", map[int]stat{1: {0, 1, 1}, 8: {1, 7, 4}}, 4},
		{"descendants in other groups", map[int]stat{1: {0, 1, 1}, 7: {1, 7, 2}, 8: {7, 8, 4}, 9: {8, 9, 8}, 10: {1, 10, 16}}, 14},
		{"a descendant of a member without its leader", map[int]stat{1: {0, 1, 1}, 8: {1, 7, 4}, 9: {8, 9, 8}}, 12},
		{"the parent of the leader does not count", map[int]stat{6: {1, 6, 1}, 7: {6, 7, 2}}, 2},
		{"a parent that is not seen", map[int]stat{9: {8, 9, 8}}, 0},
		{"each other's parents", map[int]stat{8: {9, 8, 4}, 9: {8, 9, 8}, 7: {1, 7, 2}}, 2},
	} {
		if got := residentBytes(test.processes, 7); got != test.want {
			t.Errorf("%s: expected %d, but found %d", test.reason, test.want, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	rest := " S 41 42 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 7 22"
	page := uint64(os.Getpagesize())
	for _, test := range []struct {
		reason, text string
		want         stat
		fails        bool
	}{
		{reason: "a plain name", text: "1 (init)" + rest, want: stat{parent: 41, group: 42, residentBytes: 7 * page}},
		{reason: "a name made to mislead", text: "1 (a) R 9 9 (b c)" + rest, want: stat{parent: 41, group: 42, residentBytes: 7 * page}},
		{reason: "a line break in the name", text: "1 (a\n)" + rest, want: stat{parent: 41, group: 42, residentBytes: 7 * page}},
		{reason: "nothing", text: "", fails: true},
		{reason: "too few fields", text: "1 (init) S 1 42", fails: true},
		{reason: "no number of a parent", text: "1 (init)" + strings.Replace(rest, "41", "x", 1), fails: true},
		{reason: "no number of a group", text: "1 (init)" + strings.Replace(rest, "42", "x", 1), fails: true},
	} {
		got, err := parseStat([]byte(test.text))
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(stat{})); diff != "" || (err != nil) != test.fails {
			t.Errorf("%s: error %v, -want +got:\n%s", test.reason, err, diff)
		}
	}
}

func TestParseStatNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, _ = parseStat(rapid.SliceOf(rapid.SampledFrom([]byte("0 ()-\n"))).Draw(t, "text"))
	})
}

func BenchmarkGroupResidentBytes(b *testing.B) {
	for b.Loop() {
		if _, err := GroupResidentBytes(1); err != nil {
			b.Fatal(err)
		}
	}
}
