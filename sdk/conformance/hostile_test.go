package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/test/await"
)

// childEnv makes the test binary a process that does nothing, for ever.
const childEnv = "CONFORMANCE_CHILD"

// pidFileEnv names a file to which a plugin and its children append their process ids.
const pidFileEnv = "CONFORMANCE_PID_FILE"

// hanging is a plugin that stops itself and leaves a child behind, which holds its output.
var hanging = misbehaviour{
	program: &program{before: func() bool {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"=1")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.AfterFunc(200*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
		return true
	}},
}

func notePid() {
	path := os.Getenv(pidFileEnv)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	_, _ = fmt.Fprintln(file, os.Getpid())
	_ = file.Close()
}

// A process that is stopped answers nothing, not even the order to end. The checks end nevertheless, and leave no
// process behind.
func TestNothingIsLeftOfAPluginThatHangs(t *testing.T) {
	t.Parallel()
	limits := quickLimits()
	limits.answer, limits.probe, limits.end = time.Second, 5*time.Second, time.Second
	pids := filepath.Join(t.TempDir(), "pids")
	if _, err := Binary(t.Context(), testBinary(t), Options{
		Env: []string{misbehaviourEnv + "=hangs", pidFileEnv + "=" + pids}, limits: &limits,
	}); err != nil {
		t.Fatal(err)
	}
	noted, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(noted)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		await.That(t, 10*time.Second, fmt.Sprintf("process %d to be gone", pid), func() bool { return !alive(pid) })
	}
}

// alive reports whether a process runs. An orphan that is dead waits for init to notice, which may never come in a
// container.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
