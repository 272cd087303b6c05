package deployer_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestSteps: the progress of a job tells what it does, one step after the other.
func TestSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("orphan", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(w.deployment("web", "nginx")), "exports", []any{export("x", ".data.x", w.Namespace, "later")}))

	var steps []string
	note := func() {
		t.Helper()
		for _, m := range w.Do(plugintest.Reconcile, item).Messages {
			if m.Progress != nil {
				steps = append(steps, m.Progress.Step)
			}
		}
	}
	note()
	w.ready("web")
	note()
	// A look that finds everything applied says nothing of it: what is waited for is to be seen.
	want := []string{"Apply", "CleanUp", "Readiness", "Export"}
	if diff := cmp.Diff(want, slices.Compact(steps)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
