package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// runParent is the main function of a parent that a test starts. It tells the process id of its worker.
func runParent(scenario string) {
	if os.Getenv("REPLACE") != "" {
		if err := errors.Join(os.Remove(os.Args[0]), os.WriteFile(os.Args[0], []byte("#!/bin/sh\nexit 9\n"), 0o755)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if own := os.Getenv("CONFINE"); own != "" {
		if err := confineParent(own); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	o := &observer{heard: make(chan string)}
	go func() { fmt.Fprintln(os.Stdout, <-o.heard) }()
	p := New(Options{})
	result, err := p.Run(context.Background(), request(scenario, func(r *helm.Request) { r.Chart.Path = os.Getenv("SPY") }), o)
	p.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "done: %d, kept: %s\n", result.Revision, result.Kept)
}

// confineParent confines a parent to its own directory, where that can be done.
var confineParent func(own string) error

// Whatever the worker does, the end of the context is the end of the request.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	const grace = 300 * time.Millisecond
	aborted := errors.New("aborted")
	for name, test := range map[string]struct {
		reason   string
		revision int
		kept     time.Duration // how long it may keep the caller waiting, by its own doing
	}{
		"waits":             {reason: "it obeys"},
		"waits and is done": {reason: "what was done was done", revision: 3},
		"waits for ever":    {reason: "it does not obey and is killed", kept: grace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o := &observer{heard: make(chan string, 1)}
			var pid int
			var began time.Time
			go func() {
				pid, _ = strconv.Atoi(<-o.heard)
				began = time.Now()
				cancel(aborted)
			}()
			result, err := newPool(t, Options{Grace: grace}).Run(ctx, request(name), o)
			took := time.Since(began)
			if test.revision != 0 {
				if err != nil || result.Revision != test.revision {
					t.Errorf("%s: expected revision %d, but found %+v (%v)", test.reason, test.revision, result, err)
				}
			} else if !errors.Is(err, context.Canceled) || !errors.Is(err, aborted) || !strings.Contains(err.Error(), "prod/"+name) {
				t.Errorf("%s: expected the end of the context, but found %v", test.reason, err)
			}
			if !isGone(pid) {
				t.Errorf("%s: process %d is still there", test.reason, pid)
			}
			if took < test.kept || took > test.kept+10*time.Second {
				t.Errorf("%s: it took %s", test.reason, took)
			}
		})
	}
}

// Nothing is started for nobody.
func TestContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newPool(t, Options{}).Run(ctx, request("nothing"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

// The observer's own work ends with the context.
func TestContextEndsWhileTheObserverIsAsked(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observer{rendered: func(ctx context.Context, _ []helm.Object) ([]helm.Object, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, err := newPool(t, Options{}).Run(ctx, request("installs"), o); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

// A worker that does not read keeps nobody waiting, however much it is told.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Grace: 100 * time.Millisecond})
	result, err := p.Run(t.Context(), request("pid"), &observer{})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(result.Revision, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	req := request("nothing", func(r *helm.Request) { r.Values = []byte(`"` + strings.Repeat("x", 4<<20) + `"`) })
	if _, err := p.Run(ctx, req, &observer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v", err)
	}
	if !isGone(result.Revision) {
		t.Error("the worker is still there")
	}
}

// What does not talk as a worker does neither keeps its parent waiting nor harms it.
func TestNoWorker(t *testing.T) {
	t.Setenv(oddEnv, "mute")
	p := newPool(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, request("odd"), &observer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v", err)
	}
	for odd, text := range map[string]string{"garbage": "start a process", "garbage later": "invalid message"} {
		t.Setenv(oddEnv, odd)
		_, err := p.Run(t.Context(), request("odd"), &observer{})
		wantError(t, err, helm.Crashed, text)
	}
}

// Signals to the process group are not for workers.
func TestSignals(t *testing.T) {
	t.Parallel()
	if _, err := newPool(t, Options{}).Run(t.Context(), request("signals"), &observer{}); err != nil {
		t.Error(err)
	}
}

// startParent starts a parent of a worker, and returns it and the worker's process id.
func startParent(t *testing.T, scenario string) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), parentEnv+"="+scenario)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || isGone(pid) {
		t.Fatalf("expected the id of a process, but found %q (%v)", line, err)
	}
	return cmd, pid
}

// A worker does not outlive its parent, whatever it does.
func TestParentIsKilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, scenario string
		stop             bool
	}{
		{reason: "it works", scenario: "loops after rendering"},
		{reason: "it is stopped, and so does not see its input closed", scenario: "waits for ever", stop: true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			cmd, pid := startParent(t, test.scenario)
			if test.stop {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			eventually(t, "the end of the worker", func() bool { return isGone(pid) })
		})
	}
}
