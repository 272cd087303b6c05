package deployer_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestHostileCharts: a chart that would do harm ends as a failed job within its limits, while other items are served.
// Those that do it before anything is rendered are those of package helm3.
// Rule (SECURITY.md#authors-of-items): A chart above the limits ends as a failed job, and other items go on.
func TestHostileCharts(t *testing.T) {
	t.Parallel()
	kinds := charts.HostileKinds(charts.Rendering)
	half := len(kinds) / 2
	for name, kinds := range map[string][]string{"one half": kinds[:half], "other half": kinds[half:]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withProcesses()
			for _, kind := range kinds {
				t.Run(kind, func(t *testing.T) { w.in(t).mustStop(kind) })
			}
		})
	}
}

// mustStop deploys a chart of a hostile kind, and another one at the same time.
func (w *world) mustStop(kind string) {
	w.Helper()
	source := object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Hostile(kind))}}
	failed := make(chan *sdktest.Result, 1)
	began := time.Now()
	go func() {
		item := w.itemOf("hostile", w.config(source, nil, object{"name": "hostile"}))
		var result *sdktest.Result
		for range 5 { // a worker that gets no processor has waited, and the host tries the job again
			result = w.Plugin.Reconcile(w.Context(), w.CallOf(item))
			if result.Failed == nil || len(result.Failed.Codes()) > 0 {
				break
			}
		}
		failed <- result
	}()
	other := w.itemOf("other", w.config(chart("plain"), nil, object{"name": "other"}))
	w.MustSucceed(other)
	result := <-failed
	w.MustFail(result, configProblem)
	w.Logf("%s: %s", time.Since(began).Round(time.Millisecond), result)
	if got := w.revisions("hostile"); len(got) > 0 {
		w.Errorf("expected no release, but found %v", got)
	}
	w.MustDelete(other)
}
