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

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	o := &observer{}
	isSame(t, &helm.Result{
		Revision: 2, Chart: chart, Definitions: objects(1, "d"), Objects: objects(3, "<&>"),
		Hooks: []helm.Hook{{Object: objects(1, "h")[0], Events: []string{"pre-install"}}},
	}, result(t, newPool(t, Options{}), "installs", o))
	isSame(t, []string{
		"Load: loads <the chart>", "log: a line of Helm's", "changing", "rendered 3", "Create: creates the objects",
	}, o.all())
}

// The observer may replace the objects, or refuse them.
func TestObserver(t *testing.T) {
	t.Parallel()
	rendered := func(objects []helm.Object, err error) *observer {
		return &observer{rendered: func(context.Context, []helm.Object) ([]helm.Object, error) { return objects, err }}
	}
	replaced := rendered(objects(2, "other"), nil)
	isSame(t, objects(2, "other"), result(t, newPool(t, Options{}), "installs", replaced).Objects)
	for _, o := range []*observer{{changing: errors.New("no")}, rendered(nil, errors.New("no"))} {
		_, err := newPool(t, Options{}).Run(t.Context(), request("installs"), o)
		wantError(t, err, helm.Refused)
	}
}

func TestRequestArrives(t *testing.T) {
	t.Parallel()
	req := &helm.Request{
		Action: helm.Values, Kubeconfig: []byte("\x00kube"), Release: helm.Release{Namespace: "prod", Name: "echo"},
		Chart: helm.Chart{Path: "/c"}, Values: json.RawMessage(`{"a":1.00,"b":"` + strings.Repeat("v", 1<<10) + `"}`),
		CreateNamespace: true, Labels: map[string]string{"a": "b"}, Interrupted: []int{1, 2}, MaxHistory: 3,
		Options: helm.Options{Atomic: true, Timeout: time.Minute}, Limits: testLimits,
	}
	found, err := newPool(t, Options{}).Run(t.Context(), req, &observer{})
	if err != nil {
		t.Fatal(err)
	}
	var got helm.Request
	if err := json.Unmarshal([]byte(found.Kept), &got); err != nil {
		t.Fatal(err)
	}
	isSame(t, req, &got)
	isSame(t, string(req.Values), string(found.Values))
}

// A worker has a low priority and some processors. What it prints is no report.
func TestWhatAWorkerHas(t *testing.T) {
	t.Parallel()
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	nice := max(niceness, 20-priority) // the tests themselves may have a low priority
	isSame(t, fmt.Sprint(nice, min(runtime.GOMAXPROCS(0), maxProcessors)),
		result(t, newPool(t, Options{}), "has", &observer{}).Kept)
}

// Errors of Helm arrive, without what cannot be trusted to hold no values, and processes end for reasons of their own.
func TestErrors(t *testing.T) {
	t.Parallel()
	const unexpected = "failed: unexpected error of type *errors.errorString; see the log at level debug"
	for name, test := range map[string]struct {
		kind helm.Kind
		text string
	}{
		"known error":   {helm.RenderFailed, "it fails"},
		"unknown error": {helm.Crashed, unexpected},
		"panics":        {helm.Crashed, "exit status 2"},
		"panics on":     {helm.Crashed, "exit status 2"},
		"map fatal":     {helm.Crashed, "exit status 2"},
		"exits 7":       {helm.Crashed, "exit status 7"},
		"killed":        {helm.Crashed, "lack of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logger
			_, err := newPool(t, Options{Log: log.Log()}).Run(t.Context(), request(name), &observer{})
			wantError(t, err, test.kind, test.text)
			if test.kind == helm.Crashed {
				wantError(t, err, test.kind, "installing release prod/"+name)
			}
			if text := log.String() + err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "lines\n") {
				t.Errorf("what may be a value is told: %s", text)
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
			second := result(t, p, "pid", &observer{})
			if got := slices.Contains(o.all(), "log: "+strconv.Itoa(second.Revision)); got != reused {
				t.Errorf("expected the same process: %t, but found %t", reused, got)
			}
		})
	}
}

// TestStartDelay: rather than start another worker, a request waits for a moment for one that is at work, and as long
// as another request waits or starts one.
func TestStartDelay(t *testing.T) {
	t.Parallel()
	for name, setUp := range map[string]func(*Pool){
		"for a moment":        func(p *Pool) { p.startDelay = patience },
		"for another request": func(p *Pool) { p.startDelay = 0; p.turn <- struct{}{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, Options{Rendering: 1})
			first := result(t, p, "pid", &observer{})
			setUp(p)
			isRendered, ended := make(chan struct{}), make(chan error)
			o := &observer{rendered: func(_ context.Context, objects []helm.Object) ([]helm.Object, error) {
				close(isRendered)
				return objects, nil
			}}
			go func() { _, err := p.Run(t.Context(), request("installs"), o); ended <- err }()
			<-isRendered
			isSame(t, first.Revision, result(t, p, "pid", &observer{}).Revision)
			if err := <-ended; err != nil {
				t.Error(err)
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
		if result(t, p, "installs", o); len(o.all()) != 5 {
			t.Fatalf("found %q", o.all())
		}
		requests[result(t, p, "pid", &observer{}).Revision] += 2
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
	run := func() int { return result(t, p, "pid", &observer{}).Revision }
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

// startRun carries out a request until it says something. Its end is that of the context.
func startRun(t *testing.T, p *Pool, scenario string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observer{heard: make(chan string, 1)}
	ended := make(chan error)
	go func() { _, err := p.Run(ctx, request(scenario), o); ended <- err }()
	<-o.heard
	return func() {
		cancel()
		isCanceled(t, <-ended)
	}
}

// Who waits for others leaves when its context ends. Renderers keep nobody waiting who renders nothing.
func TestSlots(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Rendering: 1, Workers: 3})
	end := startRun(t, p, "waits")
	short, cancelShort := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("aborted"))
	defer cancelShort()
	_, err := p.Run(short, request("nothing"), &observer{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("expected the end of the context with its cause, but found %v", err)
	}
	if _, err := p.Run(t.Context(), request("nothing", action(helm.Uninstall)), &observer{}); err != nil {
		t.Errorf("expected an uninstallation to go ahead, but found %v", err)
	}
	end()
}

// Once a chart is rendered the next one can be, whatever Helm waits for.
func TestWaitingDoesNotKeepOthersFromRendering(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Rendering: 1})
	end := startRun(t, p, "loops after rendering")
	result(t, p, "nothing", &observer{})
	end()
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
