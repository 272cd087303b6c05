package output

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// crashEnv names what this binary is to do instead of testing.
const crashEnv = "PERGOLA_TEST_CRASH"

// crashes are the ways in which a program in Go ends that does not want to.
var crashes = map[string]func(){
	"panic":     func() { panicNow(errors.New("oh\ndear")) },
	"nil":       func() { panicNow(*(*any)(nil)) },
	"goroutine": panicAmongMany,
	"overflow": func() {
		debug.SetMaxStack(1 << 20)
		fmt.Fprint(os.Stderr, overflow(1))
	},
	"throw": func() { (&sync.Mutex{}).Unlock() },
	"quit": func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		time.Sleep(time.Minute)
	},
	"race": func() {
		counter, done := 0, make(chan struct{})
		go func() {
			counter++
			close(done)
		}()
		counter++
		<-done
		fmt.Fprintln(os.Stderr, "after", counter)
		os.Exit(1)
	},
}

//go:noinline
func panicNow(value any) { panic(value) } //nolint:forbidigo // what is tested

//go:noinline
func overflow(n int) int { return overflow(n+1) + 1 } //nolint:staticcheck // what is tested

// panicAmongMany panics in one of many goroutines, all of which are in the report.
func panicAmongMany() {
	debug.SetTraceback("all")
	for range 5000 {
		go func() { select {} }()
	}
	go panicNow("oh")
	select {}
}

// runCrash runs this binary as a program that crashes.
func runCrash(t *testing.T, f *fixture, crash string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), crashEnv+"="+crash)
	w := f.Writer("stderr")
	cmd.Stderr = w
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() == 99 {
		t.Fatalf("%s: expected a crash, but found %v", crash, cmd.ProcessState)
	}
	closeWriter(t, w)
}

// A real crash is one record, even in a flood, and the tail says what happened and where.
func TestRealCrashes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ message, stack, tail string }{
		"panic":     {"panic: oh", "panicNow(", "panicNow("},
		"nil":       {"panic: runtime error: invalid memory address or nil pointer dereference", "SIGSEGV", "crash_test.go"},
		"goroutine": {"panic: oh", "panicNow(", "panicNow("},
		"overflow":  {"runtime: goroutine stack exceeds 1048576-byte limit", "fatal error: stack overflow", "fatal error: stack overflow"},
		"throw":     {"fatal error: sync: unlock of unlocked mutex", "Unlock(", "goroutine "},
		"quit":      {"SIGQUIT: quit", "goroutine ", "SIGQUIT: quit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, limited(1, 1)) // a flood: the first few lines are all
			runCrash(t, f, name)
			got := f.said()
			if len(got) != 2 || got[0]["msg"] != "before" {
				t.Fatalf("expected a line and a crash, but found %.2000q", got)
			}
			stack, ok := got[1]["stack"].(string)
			if got[1]["level"] != "ERROR" || got[1]["msg"] != want.message || !ok || !strings.Contains(stack, want.stack) {
				t.Errorf("expected %q with %q in its stack, but found %.2000q", want.message, want.stack, got[1])
			}
			tail := f.Tail(time.Minute)
			if tail[0] != "before" || tail[1] != want.message || !strings.Contains(strings.Join(tail, "\n"), want.tail) {
				t.Errorf("expected %q and %q in the tail, but found %.2000q", want.message, want.tail, tail)
			}
		})
	}
}
