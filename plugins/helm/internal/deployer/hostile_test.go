package deployer_test

import (
	"encoding/base64"
	"log/slog"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/worker"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// withProcesses has Helm work in processes of its own, as the plugin does it, with tight limits.
func (w *world) withProcesses() *world {
	w.Helper()
	d, err := deployer.New(deployer.Options{
		UserAgent: "pergola-helm/test",
		CacheDir:  w.TempDir(),
		Helm: func(workers int, log *slog.Logger) helm.Helm {
			return worker.New(worker.Options{Workers: workers, Log: log})
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.plugin = sdktest.New(w.T, d, sdk.Name("helm"), sdk.Version("test"), sdk.Types(v1alpha1.Type), sdk.ContextCredentials())
	problems, err := w.plugin.Configure(w.Context(), []byte(`{"apiVersion":"helm.pergola.dev/v1alpha1","kind":"HelmConfiguration",`+
		`"workers":2,"limits":{"unpacked":"20Mi","rendered":"10Mi","renderTime":"5s","memory":"512Mi"}}`))
	if err != nil || len(problems) > 0 {
		w.Fatalf("configure the plugin: %v, %v", problems, err)
	}
	return w
}

// TestHostileCharts: a chart that would do harm ends as a failed job within its limits, while other items are served.
func TestHostileCharts(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withProcesses()
	for _, kind := range charts.HostileKinds() {
		t.Run(kind, func(t *testing.T) {
			w := w.in(t)
			source := object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Hostile(kind))}}
			failed := make(chan *sdktest.Result, 1)
			began := time.Now()
			go func() {
				failed <- w.plugin.Reconcile(t.Context(), w.call(w.itemOf("hostile", w.config(source, nil, object{"name": "hostile"}))))
			}()
			other := w.itemOf("other", w.config(chart("plain"), nil, object{"name": "other"}))
			w.mustSucceed(other)
			result := <-failed
			w.mustFail(result, configurationProblem)
			t.Logf("%s: %s", time.Since(began).Round(time.Millisecond), result)
			if got := w.revisions("hostile"); len(got) > 0 {
				t.Errorf("expected no release, but found %v", got)
			}
			w.mustDelete(other)
		})
	}
}
