package worker

import (
	"bufio"
	"context"
	"encoding/gob"
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
	if change := os.Getenv("CHANGE"); change != "" {
		if out, err := exec.CommandContext(context.Background(), "/bin/sh", "-c", change, os.Args[0]).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s %v\n", out, err)
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
		"waits":                 {reason: "it obeys"},
		"waits and explains":    {reason: "what it makes of the end is not the reason"},
		"waits and is done":     {reason: "what was done was done", revision: 3},
		"waits for ever":        {reason: "it does not obey and is killed", kept: grace},
		"loops in the open":     {reason: "it does not even look", kept: grace},
		"loops after rendering": {reason: "nor later", kept: grace},
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
func TestDeafWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	p := newPool(t, Options{Grace: 100 * time.Millisecond})
	p.environment = append(p.environment, oddEnv+"=deaf")
	req := request("odd", func(r *helm.Request) { r.Values = []byte(`"` + strings.Repeat("x", 4<<20) + `"`) })
	began := time.Now()
	if _, err := p.Run(ctx, req, &observer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// What is no worker does not begin, which the end of the context ends before the time for the start is over.
func TestMuteWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	p := newPool(t, Options{Grace: 100 * time.Millisecond})
	p.environment = append(p.environment, oddEnv+"=mute")
	if _, err := p.Run(ctx, request("odd"), &observer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v", err)
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
	// Nobody removes the worker's directory when its parent is killed; of a plugin's the host does.
	cmd.Env = append(os.Environ(), parentEnv+"="+scenario, "TMPDIR="+t.TempDir())
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
		{reason: "it waits", scenario: "waits"},
		{reason: "it works", scenario: "loops after rendering"},
		{reason: "it is stopped, and so does not see its pipe closed", scenario: "waits for ever", stop: true},
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

// startByHand starts a worker as a pool does, and returns its process and the ends of its pipes.
func startByHand(t *testing.T) (cmd *exec.Cmd, to, from *os.File) {
	t.Helper()
	requests, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{workerName}
	cmd.ExtraFiles = []*os.File{requests, answers}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	requests.Close()
	answers.Close()
	return cmd, to, from
}

// The end of its pipe is the end of a worker, without any signal, before a request and while it works.
func TestPipeIsClosed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason   string
		scenario string
		code     int
	}{
		{"before a request there is nothing to do", "", exitOrphaned},
		{"nobody waits for what it does", "loops in the open", exitOrphaned},
		{"nor for what it waits for", "waits for ever", exitOrphaned},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			cmd, to, from := startByHand(t)
			defer from.Close()
			reports := gob.NewDecoder(from)
			if err := reports.Decode(&report{}); err != nil {
				t.Fatal(err)
			}
			if test.scenario != "" {
				if err := gob.NewEncoder(to).Encode(order{Request: request(test.scenario)}); err != nil {
					t.Fatal(err)
				}
				if err := reports.Decode(&report{}); err != nil {
					t.Fatal(err)
				}
			}
			to.Close()
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != test.code {
				t.Errorf("expected exit code %d, but found %v", test.code, err)
			}
		})
	}
}
