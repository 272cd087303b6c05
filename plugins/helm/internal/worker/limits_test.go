package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// Each limit ends the worker, and the error says which one it was.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"grows", "grows at once", "recurses"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, scenario, func(r *helm.Request) { r.Limits.MemoryBytes = 128 << 20 })
			wantError(t, err, helm.LimitExceeded, "memory limit of 128Mi", "prod/"+scenario)
		})
	}
}

// An index that asks for any amount of memory ends its worker. The answer about another one arrives.
func TestIndex(t *testing.T) {
	t.Parallel()
	bomb := "%TAG ! tag:" + strings.Repeat("x", 1<<20) + "\n---\nentries:\n  shop:\n" +
		strings.Repeat("  - !a b\n", 100_000)
	read := func(document string) (*helm.Result, error) {
		path := filepath.Join(t.TempDir(), "index.yaml")
		if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
		return run(t, "index", action(helm.Index), func(r *helm.Request) {
			r.Chart.Path, r.Wanted, r.Limits.MemoryBytes = path, helm.Wanted{Name: "shop"}, 128<<20
		})
	}
	_, err := read(bomb)
	wantError(t, err, helm.LimitExceeded, "reading the index", "memory limit of 128Mi", "the index is too large")
	result, err := read("entries:\n  shop:\n  - {version: 1.0.0, urls: [a]}\n")
	if err != nil || result.Listed.Found.Version != "1.0.0" || result.Listed.Versions != 1 {
		t.Errorf("found %+v (%v)", result, err)
	}
}

// A template without an end ends. On a machine that is busy with other things it may be held to have waited.
func TestTimeForRendering(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"loops", "waits for ever"} {
		for _, action := range []helm.Action{helm.Values, helm.Install} {
			t.Run(scenario+" "+string(action), func(t *testing.T) {
				t.Parallel()
				_, err := run(t, scenario, func(r *helm.Request) {
					r.Action, r.Limits.RenderTime = action, 500*time.Millisecond
				})
				found, ok := errors.AsType[*helm.Error](err)
				if !ok || !strings.Contains(found.Message, "time limit of 500ms") &&
					!strings.Contains(found.Message, "within 500ms") {
					t.Errorf("found %v", err)
				}
			})
		}
	}
}

// The chart is only to blame for the time that it has used.
func TestWhoIsToBlameForTheTime(t *testing.T) {
	t.Parallel()
	for busy, kind := range map[time.Duration]helm.Kind{
		30 * time.Second: helm.LimitExceeded, 3 * time.Second: helm.LimitExceeded, 2 * time.Second: helm.ClusterFailed,
	} {
		wantError(t, tooSlow(request("x", func(r *helm.Request) { r.Limits.RenderTime = 30 * time.Second }), busy), kind)
	}
}

// What Helm does with a rendered chart, or without one, may take longer than rendering, and so may the observer.
func TestTimeForRenderingEndsWithIt(t *testing.T) {
	t.Parallel()
	const limit, work = time.Second, 2 * time.Second
	for reason, test := range map[string]struct {
		action           helm.Action
		observer, worker time.Duration
	}{
		"the chart is rendered": {helm.Upgrade, 0, work},
		"the observer is asked": {helm.Install, work, 0},
		"there is no chart":     {helm.Uninstall, 0, work},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			o := &observer{rendered: func(context.Context, []helm.Object) ([]helm.Object, error) {
				time.Sleep(test.observer)
				return nil, nil
			}}
			req := request("takes its time", action(test.action))
			req.Limits.RenderTime, req.Options.Timeout = limit, test.worker
			if _, err := newPool(t, Options{}).Run(t.Context(), req, o); err != nil {
				t.Error(err)
			}
		})
	}
}

// Garbage is no offence. Signals to the process group are not for workers.
func TestNoHarm(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"garbage", "signals"} {
		result(t, newPool(t, Options{}), scenario, &observer{})
	}
}

// What a worker writes is logged, but for what may hold values.
func TestStandardError(t *testing.T) {
	t.Parallel()
	var log logger
	result(t, newPool(t, Options{Log: log.Log()}), "writes", &observer{})
	for text, want := range map[string]bool{
		"line=first": true, "line=second": true, "secret": false, "release=writes": true,
	} {
		if strings.Contains(log.String(), text) != want {
			t.Errorf("expected %q: %t, but found %.2000s", text, want, log.String())
		}
	}
	if n := len(log.String()); n > 10*maxStderr {
		t.Errorf("found %d bytes", n)
	}
}

// The end of a process is told by what Go's runtime writes.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]helm.Kind{
		"fatal error: stack overflow\n":                       helm.LimitExceeded,
		"x\nfatal error: runtime: cannot allocate memory\n":   helm.LimitExceeded,
		"runtime: out of memory: cannot allocate 8192-byte\n": helm.LimitExceeded,
		"fatal error: concurrent map writes\n":                helm.Crashed,
		"it says fatal error: out of memory\n":                helm.Crashed,
	} {
		if found := verdict(request("x"), &os.ProcessState{}, text, io.EOF); found.Kind != kind {
			t.Errorf("%q: found %s", text, found.Kind)
		}
	}
}
