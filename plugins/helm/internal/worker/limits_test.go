package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// Each limit ends the worker, and the error says which one it was.
func TestLimits(t *testing.T) {
	t.Parallel()
	memory := func(r *helm.Request) { r.Limits.MemoryBytes = 128 << 20 }
	for _, test := range []struct {
		reason, scenario string
		change           []func(*helm.Request)
		kind             helm.Kind
		text             string
	}{
		{"memory, little by little", "grows", []func(*helm.Request){memory}, helm.LimitExceeded, "128 MiB of memory"},
		{"memory, all at once", "grows at once", []func(*helm.Request){memory}, helm.LimitExceeded, "128 MiB of memory"},
		{"memory, in a step that the kernel allows", "grows by a step", []func(*helm.Request){memory}, helm.LimitExceeded, "128 MiB of memory"},
		{"the stack", "recurses", []func(*helm.Request){memory}, helm.LimitExceeded, "a stack of 32 MiB"},
		{"objects before rendering", "renders much", nil, helm.LimitExceeded, "far more than 1 MiB"},
		{"objects of the result", "results in much", nil, helm.LimitExceeded, "far more than 1 MiB"},
		{"standard error", "writes on", nil, helm.Crashed, "broken pipe"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			_, err := newPool(t, Options{}).Run(t.Context(), request(test.scenario, test.change...), &observer{})
			wantError(t, err, test.kind, test.text, "prod/"+test.scenario)
		})
	}
}

// A template without an end ends. On a machine that is busy with other things it may be held to have waited.
func TestTimeForRendering(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"loops", "waits for ever"} {
		for _, action := range []helm.Action{helm.Render, helm.Values, helm.Install, helm.Upgrade} {
			t.Run(scenario+" "+string(action), func(t *testing.T) {
				t.Parallel()
				req := request(scenario, func(r *helm.Request) { r.Action, r.Limits.RenderTime = action, 500*time.Millisecond })
				_, err := newPool(t, Options{}).Run(t.Context(), req, &observer{})
				var found *helm.Error
				if !errors.As(err, &found) || !strings.Contains(found.Message, "500ms to render") && !strings.Contains(found.Message, "within 2s") {
					t.Errorf("found %v", err)
				}
			})
		}
	}
}

// The chart is only to blame for the time that it has used.
func TestWhoIsToBlameForTheTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		busy   time.Duration
		change func(*helm.Request)
		kind   helm.Kind
		text   string
	}{
		{"it has worked all the time", 30 * time.Second, func(*helm.Request) {}, helm.LimitExceeded, "30s to render"},
		{"it has worked, beside others", 3 * time.Second, func(*helm.Request) {}, helm.LimitExceeded, "30s to render"},
		{"it has waited", 2 * time.Second, func(*helm.Request) {}, helm.ClusterFailed, "the API server is slow"},
		{"it has waited, but not for a target", 2 * time.Second, func(r *helm.Request) { r.Kubeconfig = nil }, helm.Crashed, "want of a processor"},
	} {
		found := tooSlow(request("x", func(r *helm.Request) { r.Limits.RenderTime = 30 * time.Second }, test.change), test.busy)
		if found.Kind != test.kind || !strings.Contains(found.Message, test.text) {
			t.Errorf("%s: found %s: %s", test.reason, found.Kind, found.Message)
		}
	}
}

// What Helm does with a rendered chart, or without one, may take longer than rendering, and so may the observer.
func TestTimeForRenderingEndsWithIt(t *testing.T) {
	t.Parallel()
	const limit, work = 2 * time.Second, 6 * time.Second
	for _, test := range []struct {
		reason   string
		action   helm.Action
		observer time.Duration
		worker   time.Duration
	}{
		{"the chart is rendered", helm.Upgrade, 0, work},
		{"the observer is asked", helm.Install, work, 0},
		{"there is no chart", helm.Uninstall, 0, work},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			o := &observer{rendered: func(context.Context, []helm.Object) ([]helm.Object, error) {
				time.Sleep(test.observer)
				return nil, nil
			}}
			_, err := newPool(t, Options{}).Run(t.Context(), request("takes its time", action(test.action), func(r *helm.Request) {
				r.Limits.RenderTime, r.Options.Timeout = limit, test.worker
			}), o)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Garbage is no offence.
func TestGarbageIsCollected(t *testing.T) {
	t.Parallel()
	if _, err := newPool(t, Options{}).Run(t.Context(), request("garbage"), &observer{}); err != nil {
		t.Error(err)
	}
}

// What is too much to tell is left out, and no more than that.
func TestFloods(t *testing.T) {
	t.Parallel()
	for scenario, most := range map[string]int{"talks": 5_000, "writes": maxLines + 1} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			var log logger
			o := &observer{}
			if _, err := newPool(t, Options{Log: log.Log()}).Run(t.Context(), request(scenario), o); err != nil {
				t.Fatal(err)
			}
			heard, logged := len(o.all()), strings.Count(log.String(), "\n")
			if heard+logged < maxLines || heard > most || logged > most {
				t.Errorf("heard %d, logged %d", heard, logged)
			}
			if !strings.Contains(log.String(), "a worker has") {
				t.Errorf("expected the log to say that something was left out, but found %.2000s", log.String())
			}
		})
	}
}

// Helm prints values through package log.
func TestPackageLogIsSilent(t *testing.T) {
	t.Parallel()
	var log logger
	if _, err := newPool(t, Options{Log: log.Log()}).Run(t.Context(), request("logs values"), &observer{}); err != nil {
		t.Fatal(err)
	}
	if log.String() != "" {
		t.Errorf("found %s", log.String())
	}
}
