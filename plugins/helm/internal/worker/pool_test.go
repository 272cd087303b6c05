package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	o := &observer{}
	result, err := newPool(t, Options{}).Run(t.Context(), request("installs"), o)
	if err != nil {
		t.Fatal(err)
	}
	want := &helm.Result{
		Revision: 2, Chart: chart, Definitions: objects(1, "d"), Objects: objects(3, "<&>"),
		Hooks: []helm.Hook{{Object: objects(1, "h")[0], Events: []string{"pre-install"}}},
	}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	said := []string{"Load: loads <the chart>", "log: a line of Helm's", "rendered 3", "Create: creates the objects"}
	if diff := cmp.Diff(said, o.all()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestObserverReplacesObjects(t *testing.T) {
	t.Parallel()
	o := &observer{rendered: func(context.Context, []helm.Object) ([]helm.Object, error) { return objects(2, "other"), nil }}
	result, err := newPool(t, Options{}).Run(t.Context(), request("installs"), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects(2, "other"), result.Objects); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestObserverRefuses(t *testing.T) {
	t.Parallel()
	o := &observer{rendered: func(context.Context, []helm.Object) ([]helm.Object, error) { return nil, errors.New("no") }}
	_, err := newPool(t, Options{}).Run(t.Context(), request("installs"), o)
	wantError(t, err, helm.Refused)
}

func TestRequestArrives(t *testing.T) {
	t.Parallel()
	req := &helm.Request{
		Action: helm.Values, Kubeconfig: []byte("\x00kube"), Release: helm.Release{Namespace: "prod", Name: "echo"}, Chart: helm.Chart{Path: "/c"},
		Values: json.RawMessage(`{"a":1.00,"b":"` + strings.Repeat("v", 1<<10) + `"}`), CreateNamespace: true, Labels: map[string]string{"a": "b"},
		Interrupted: []int{1, 2}, MaxHistory: 3, Options: helm.Options{Atomic: true, Timeout: time.Minute}, Limits: testLimits,
	}
	result, err := newPool(t, Options{}).Run(t.Context(), req, &observer{})
	if err != nil {
		t.Fatal(err)
	}
	var got helm.Request
	if err := json.Unmarshal([]byte(result.Kept), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(req, &got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(string(req.Values), string(result.Values)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A worker sees nothing of its parent's but what it needs, and leaves nothing behind; TestMain looks.
func TestWhatAWorkerHas(t *testing.T) {
	t.Setenv("WORKER_TEST_SECRET", "very secret")
	t.Setenv("NO_PROXY", "example.org")
	o := &observer{}
	result, err := newPool(t, Options{}).Run(t.Context(), request("environment"), o)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(o.all(), "\n")
	for text, want := range map[string]bool{
		"log: HOME=" + os.Getenv("TMPDIR") + "/worker-": true, "log: TMPDIR=" + os.Getenv("TMPDIR") + "/worker-": true,
		"log: NO_PROXY=example.org": true, "secret": false, "PATH=": false,
	} {
		if strings.Contains(all, text) != want {
			t.Errorf("expected %q: %t, but found\n%s", text, want, all)
		}
	}
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	nice := max(niceness, 20-priority) // the tests themselves may have a low priority
	if want := fmt.Sprintf("%d %d 0 EOF", nice, min(runtime.GOMAXPROCS(0), maxProcessors)); result.Kept != want {
		t.Errorf("expected %q, but found %q", want, result.Kept)
	}
}

func TestLimitsAreNeeded(t *testing.T) {
	t.Parallel()
	_, err := newPool(t, Options{}).Run(t.Context(), request("nothing", func(r *helm.Request) { r.Limits.Depth = 0 }), &observer{})
	wantError(t, err, helm.Crashed, "must set all limits", "prod/nothing")
}

// Errors of Helm arrive, without what cannot be trusted to hold no values.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*helm.Error{
		"known error": {
			Kind: helm.RenderFailed, Message: "it\nfails\ufffd", Log: []string{"one", "two\ufffdlines"},
		},
		"unknown error": {
			Kind: helm.Crashed, Message: "installing the release prod/unknown error has failed: of an error that it does not explain (*errors.errorString)",
		},
		"deadline": {Kind: helm.TimedOut, Message: "installing the release prod/deadline has taken too long"},
		"neither":  {Kind: helm.Crashed, Message: "installing the release prod/neither has failed: there is neither a result nor an error"},
		"cancels itself": {
			Kind: helm.Crashed, Message: "installing the release prod/cancels itself has failed: of an error that it does not explain (*errors.errorString)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logger
			_, err := newPool(t, Options{Log: log.Log()}).Run(t.Context(), request(name), &observer{})
			var got *helm.Error
			if !errors.As(err, &got) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the log holds what may be a value: %s", log.String())
			}
		})
	}
}

func TestLongErrorIsCut(t *testing.T) {
	t.Parallel()
	_, err := newPool(t, Options{}).Run(t.Context(), request("long error"), &observer{})
	found := wantError(t, err, helm.HookFailed)
	if len(found.Message) > maxMessage || len(found.Log) != maxLogLines || len(found.Log[0]) > maxLogLine {
		t.Errorf("expected less: a message of %d and %d lines of %d", len(found.Message), len(found.Log), len(found.Log[0]))
	}
}

// Processes that end for reasons of their own.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"panics": "ended with a panic", "nil map": "ended with a panic", "panics on": "ended with a panic", "map fatal": "a fatal error of the Go runtime", "exits 0": "ended without a result",
		"exits 7": "exit code 7", "killed": "short of memory",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logger
			_, err := newPool(t, Options{Log: log.Log()}).Run(t.Context(), request(name), &observer{})
			wantError(t, err, helm.Crashed, text, "installing the release prod/"+name)
			if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "lines\n") {
				t.Errorf("the log holds the message of a panic: %s", log.String())
			}
			if name == "panics on" && !strings.Contains(log.String(), "scenarios_test.go") {
				t.Errorf("expected the stack in the log, but found: %s", log.String())
			}
		})
	}
}

// TestNoWorker: what does not talk as a worker does neither keeps its parent waiting nor harms it.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"hangs up": "closed its pipe", "half a message": "ended without a result", "bytes": "invalid message",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, Options{})
			p.environment = append(p.environment, oddEnv+"="+name)
			_, err := p.Run(t.Context(), request("odd"), &observer{})
			wantError(t, err, helm.Crashed, text)
		})
	}
}

// TestReuse: a worker that has succeeded carries out the next request of the same memory limit, unless it keeps too
// much memory, and finds its directory empty.
func TestReuse(t *testing.T) {
	t.Parallel()
	otherMemory := func(r *helm.Request) { r.Limits.MemoryBytes *= 2 }
	for name, test := range map[string]struct {
		first, second string
		change        []func(*helm.Request)
		reused        bool
	}{
		"success":              {first: "pid", second: "pid", reused: true},
		"error":                {first: "known error", second: "pid"},
		"crash":                {first: "exits 7", second: "pid"},
		"a file is removed":    {first: "leaves a file", second: "leaves a file", reused: true},
		"memory is kept":       {first: "keeps memory", second: "pid"},
		"another memory limit": {first: "pid", second: "pid", change: []func(*helm.Request){otherMemory}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, Options{})
			first, err := p.Run(t.Context(), request(test.first), &observer{})
			if (err == nil) != (first != nil) {
				t.Fatal(first, err)
			}
			second, err := p.Run(t.Context(), request(test.second, test.change...), &observer{})
			if err != nil {
				t.Fatal(err)
			}
			if reused := first != nil && first.Revision == second.Revision; reused != test.reused {
				t.Errorf("expected the same process: %t, but found %t", test.reused, reused)
			}
		})
	}
}

// TestRequestsOfAWorker: a worker has many requests, each with what belongs to it, and then another one takes its
// place.
func TestRequestsOfAWorker(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{})
	requests := map[int]int{}
	for range maxRequests {
		o := &observer{}
		if _, err := p.Run(t.Context(), request("installs"), o); err != nil || len(o.all()) != 4 {
			t.Fatalf("found %q (%v)", o.all(), err)
		}
		result, err := p.Run(t.Context(), request("pid"), &observer{})
		if err != nil {
			t.Fatal(err)
		}
		requests[result.Revision] += 2
	}
	for pid, n := range requests {
		if n != maxRequests {
			t.Errorf("expected %d requests for each process, but found %d for %d", maxRequests, n, pid)
		}
	}
}

// TestIdle: a worker that waits for too long ends, and one that was killed meanwhile is not used.
func TestIdle(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{})
	run := func() int {
		result, err := p.Run(t.Context(), request("pid"), &observer{})
		if err != nil {
			t.Fatal(err)
		}
		return result.Revision
	}
	killed := run()
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the worker", p.idle[0].hasEnded)
	if next := run(); next == killed {
		t.Error("a process that has ended was used")
	}
	p.maxIdle = 0
	last := run()
	eventually(t, "the end of the worker", func() bool { return isGone(last) })
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const all, allowed = 20, 2
	p := newPool(t, Options{Workers: allowed})
	var running, most, done atomic.Int32
	var wg sync.WaitGroup
	for range all {
		wg.Go(func() {
			o := &observer{rendered: func(_ context.Context, objects []helm.Object) ([]helm.Object, error) {
				now := running.Add(1)
				defer running.Add(-1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				return objects, nil
			}}
			if _, err := p.Run(t.Context(), request("installs"), o); err != nil {
				t.Error(err)
				return
			}
			done.Add(1)
		})
	}
	wg.Wait()
	if done.Load() != all || most.Load() > allowed {
		t.Errorf("expected %d to be done, at most %d at once, but found %d and %d", all, allowed, done.Load(), most.Load())
	}
}

// Who waits for others leaves when its context ends. Renderers keep nobody waiting who renders nothing.
func TestSlots(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Rendering: 1, Workers: 3})
	ctx, cancel := context.WithCancel(t.Context())
	first := &observer{heard: make(chan string, 1)}
	ended := make(chan error)
	go func() { _, err := p.Run(ctx, request("waits"), first); ended <- err }()
	<-first.heard

	short, cancelShort := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("aborted"))
	defer cancelShort()
	_, err := p.Run(short, request("nothing"), &observer{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("expected the end of the context with its cause, but found %v", err)
	}
	if _, err := p.Run(t.Context(), request("nothing", action(helm.Uninstall)), &observer{}); err != nil {
		t.Errorf("expected an uninstallation to go ahead, but found %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}

// Once a chart is rendered the next one can be, whatever Helm waits for.
func TestWaitingDoesNotKeepOthersFromRendering(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Rendering: 1})
	ctx, cancel := context.WithCancel(t.Context())
	first := &observer{heard: make(chan string, 1)}
	ended := make(chan error)
	go func() { _, err := p.Run(ctx, request("loops after rendering"), first); ended <- err }()
	<-first.heard
	if _, err := p.Run(t.Context(), request("nothing"), &observer{}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}

// The program goes on to be what it was, whatever becomes of its file.
func TestProgramIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]string{
		"replaced": "printf '#!/bin/sh\\nexit 9\\n' >$0.new; chmod +x $0.new; mv $0.new $0",
		"deleted":  "rm $0",
	} {
		cmd := exec.CommandContext(t.Context(), copyProgram(t))
		cmd.Env = append(os.Environ(), parentEnv+"=installs", "CHANGE="+change)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "done: 2") {
			t.Errorf("%s: found %s (%v)", reason, out, err)
		}
	}
}

// A program whose main function forgets to call Main does not start itself without an end.
func TestWorkerStartsNoWorkers(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{workerName}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitOrphaned || !strings.Contains(string(out), "not for people to start") {
		t.Errorf("found %v: %s", err, out)
	}
}
