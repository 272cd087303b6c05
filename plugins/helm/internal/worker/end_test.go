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
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if os.Getenv("REPLACE") != "" {
		must(os.Remove(os.Args[0]))
		must(os.WriteFile(os.Args[0], []byte("#!/bin/sh\nexit 9\n"), 0o755))
	}
	if own := os.Getenv("CONFINE"); own != "" {
		must(confineParent(own))
	}
	o := &observer{heard: make(chan string)}
	go func() { fmt.Fprintln(os.Stdout, <-o.heard) }()
	req := request(scenario, func(r *helm.Request) { r.Chart.Path = os.Getenv("SPY") })
	result, err := New(Options{Workers: 1}).Run(context.Background(), req, o)
	must(err)
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
		revision int
		kept     time.Duration // how long it may keep the caller waiting, by its own doing
	}{
		"waits":             {},            // it obeys
		"waits and is done": {revision: 3}, // what was done was done
		"waits for ever":    {kept: grace}, // it does not obey and is killed
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
			switch {
			case test.revision != 0:
				if err != nil || result.Revision != test.revision {
					t.Errorf("expected revision %d, but found %+v (%v)", test.revision, result, err)
				}
			case !errors.Is(err, context.Canceled), !errors.Is(err, aborted), !strings.Contains(err.Error(), "prod/"+name):
				t.Errorf("expected the end of the context, but found %v", err)
			}
			if !isGone(pid) || took < test.kept || took > test.kept+10*time.Second {
				t.Errorf("expected the process to end in time, but it is gone: %t, after %s", isGone(pid), took)
			}
		})
	}
}

// Nothing is started for nobody.
func TestContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newPool(t, Options{}).Run(ctx, request("nothing"), nil)
	isCanceled(t, err)
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
	_, err := newPool(t, Options{}).Run(ctx, request("installs"), o)
	isCanceled(t, err)
}

// A worker that does not read keeps nobody waiting, however much it is told.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Grace: 100 * time.Millisecond})
	stopped := result(t, p, "pid", &observer{}).Revision
	if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	req := request("nothing", func(r *helm.Request) { r.Values = []byte(`"` + strings.Repeat("x", 4<<20) + `"`) })
	if _, err := p.Run(ctx, req, &observer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v", err)
	}
	if !isGone(stopped) {
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
	// The one works, and the other is stopped, and so does not see its input closed.
	for scenario, stop := range map[string]bool{"loops after rendering": false, "waits for ever": true} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			cmd, pid := startParent(t, scenario)
			if stop {
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
