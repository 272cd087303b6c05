package helm3_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/test/charts"
)

const (
	waiting = "RunHook"
	// patience is what callers have after they have cancelled, with something for slow machines.
	patience = 4 * time.Second
)

// cancelWhen runs a request and cancels it when a step has begun.
func (w *world) cancelWhen(step string, r *helm.Request) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	type outcome struct {
		err error
		at  time.Time
	}
	done := make(chan outcome, 1)
	go func() {
		_, err := w.client.Run(ctx, r, w.audience)
		done <- outcome{err, time.Now()}
	}()
	w.Eventually(step, func() bool {
		w.audience.mu.Lock()
		defer w.audience.mu.Unlock()
		return slices.ContainsFunc(w.audience.progress, func(p string) bool { return strings.HasPrefix(p, step+": ") })
	})
	// Into the wait itself.
	time.Sleep(100 * time.Millisecond)
	cancelled := time.Now()
	cancel()
	out := <-done
	if !errors.Is(out.err, context.Canceled) {
		w.Errorf("expected the error of the context, but found %v", out.err)
	}
	if took := out.at.Sub(cancelled); took > patience {
		w.Errorf("cancelling has taken %s", took)
	}
	w.Requests.Take()
	w.audience.mu.Lock()
	heard := len(w.audience.log) + len(w.audience.progress)
	w.audience.mu.Unlock()
	time.Sleep(300 * time.Millisecond)
	w.audience.mu.Lock()
	defer w.audience.mu.Unlock()
	if late := w.Requests.Take(); len(late) > 0 || len(w.audience.log)+len(w.audience.progress) > heard {
		w.Errorf("something has happened after the end: %v, %v", late, w.audience.log)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	workload := charts.Pack("workload")
	for name, c := range map[string]struct {
		before, chart []byte
		options       helm.Options
		step          string
		want          []string
	}{
		"wait of an install": {nil, workload, helm.Options{Wait: true}, "WaitForObjects", []string{"1:failed"}},
		"wait of an upgrade": {
			plain, workload, helm.Options{Wait: true}, "WaitForObjects", []string{"1:deployed", "2:failed"},
		},
		// There is no time to roll back.
		"wait of an atomic upgrade": {
			plain, workload, helm.Options{Atomic: true}, "WaitForObjects", []string{"1:deployed", "2:failed"},
		},
		"hook of an install": {nil, charts.Pack("failinghook"), helm.Options{}, waiting, []string{"1:failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.before != nil {
				w.mustRun(w.request(c.before, nil))
			}
			r := w.request(c.chart, fields{"hook": fields{"fails": "hang"}})
			r.Options = c.options
			r.Options.Timeout = time.Minute
			w.cancelWhen(c.step, r)
			w.mustHave(c.want...)
		})
	}
}

func TestCancelUninstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(charts.Pack("hooks"), nil))
	w.mustRun(w.request(charts.Pack("hooks"), nil))
	w.Patch(configMaps, "shop-hooks", `{"metadata":{"finalizers":["example.org/wait"]}}`)
	r := w.request(plain, nil)
	r.Action, r.Options.Wait = helm.Uninstall, true
	w.cancelWhen("WaitForDeletion", r)
	w.mustHave("1:superseded", "2:uninstalling")
	if w.Get(configMaps, "shop-hooks-farewell") != nil {
		t.Error("the hooks that come after the wait must not run")
	}
	w.Patch(configMaps, "shop-hooks", `{"metadata":{"finalizers":null}}`)
	w.mustRun(r)
	w.mustHave()
	if w.Get(configMaps, "shop-hooks-farewell") == nil {
		t.Error("the hooks that come after the wait must run in the end")
	}
}

func TestCancelWhileTheObserverWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.audience.replace = func(ctx context.Context, _ []helm.Object) ([]helm.Object, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := w.client.Run(ctx, w.request(plain, nil), w.audience); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the error of the context, but found %v", err)
	}
	w.mustHave()
}
