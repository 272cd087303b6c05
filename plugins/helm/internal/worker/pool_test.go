package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
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
	said := []string{"Load: loads <the chart>", "log: a line of Helm's", "changing", "rendered 3", "Create: creates the objects"}
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
	for _, o := range []*observer{
		{changing: errors.New("no")},
		{rendered: func(context.Context, []helm.Object) ([]helm.Object, error) { return nil, errors.New("no") }},
	} {
		_, err := newPool(t, Options{}).Run(t.Context(), request("installs"), o)
		wantError(t, err, helm.Refused)
	}
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

// A worker has a low priority and some processors. What it prints is no report.
func TestWhatAWorkerHas(t *testing.T) {
	t.Parallel()
	result, err := newPool(t, Options{}).Run(t.Context(), request("has"), &observer{})
	if err != nil {
		t.Fatal(err)
	}
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	nice := max(niceness, 20-priority) // the tests themselves may have a low priority
	if want := fmt.Sprint(nice, min(runtime.GOMAXPROCS(0), maxProcessors)); result.Kept != want {
		t.Errorf("expected %q, but found %q", want, result.Kept)
	}
}

// Errors of Helm arrive, without what cannot be trusted to hold no values.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*helm.Error{
		"known error": {
			Kind: helm.RenderFailed, Message: "it fails",
		},
		"unknown error": {
			Kind: helm.Crashed, Message: "installing release prod/unknown error failed: unexpected error of type *errors.errorString; see the log at level debug",
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

// Processes that end for reasons of their own.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"panics": "exit status 2", "panics on": "exit status 2", "map fatal": "exit status 2", "exits 7": "exit status 7",
		"killed": "lack of memory",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logger
			_, err := newPool(t, Options{Log: log.Log()}).Run(t.Context(), request(name), &observer{})
			wantError(t, err, helm.Crashed, text, "installing release prod/"+name)
			if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "lines\n") {
				t.Errorf("the log holds the message of a panic: %s", log.String())
			}
			if name == "panics on" && !strings.Contains(log.String(), "scenarios_test.go") {
				t.Errorf("expected the stack in the log, but found: %s", log.String())
			}
		})
	}
}

// TestReuse: a worker that has succeeded carries out the next request, unless it keeps too much memory.
func TestReuse(t *testing.T) {
	t.Parallel()
	for first, reused := range map[string]bool{"pid": true, "known error": false, "keeps memory": false} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, Options{})
			o := &observer{}
			_, _ = p.Run(t.Context(), request(first), o)
			second, err := p.Run(t.Context(), request("pid"), &observer{})
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(o.all(), "log: "+strconv.Itoa(second.Revision)); got != reused {
				t.Errorf("expected the same process: %t, but found %t", reused, got)
			}
		})
	}
}

// TestStartDelay: rather than start another worker, a request waits for a moment for one that is at work.
func TestStartDelay(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Rendering: 1})
	p.startDelay = patience
	first, err := p.Run(t.Context(), request("pid"), &observer{})
	if err != nil {
		t.Fatal(err)
	}
	isRendered, ended := make(chan struct{}), make(chan error)
	o := &observer{rendered: func(_ context.Context, objects []helm.Object) ([]helm.Object, error) {
		close(isRendered)
		return objects, nil
	}}
	go func() { _, err := p.Run(t.Context(), request("installs"), o); ended <- err }()
	<-isRendered
	second, err := p.Run(t.Context(), request("pid"), &observer{})
	if err != nil || second.Revision != first.Revision {
		t.Errorf("expected process %d again, but found %+v (%v)", first.Revision, second, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
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
		if _, err := p.Run(t.Context(), request("installs"), o); err != nil || len(o.all()) != 5 {
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
func TestProgramIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), copyProgram(t))
	cmd.Env = append(os.Environ(), parentEnv+"=installs", "REPLACE=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "done: 2") {
		t.Errorf("found %s (%v)", out, err)
	}
}
