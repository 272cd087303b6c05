package deployer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/charts"
)

// What is known to go wrong in Landscaper's deployer, as far as the tests of the single features do not show it.

// TestContinuousReconcile: the hook says when the item is due. That a job repairs what has changed is TestDrift's.
// Rule (helm.md#the-helm-deployer): The helm deployer has schedules.
func TestContinuousReconcile(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), nil, object{"continuousReconcile": object{"every": "1h"}}))
		w.MustSucceed(item)
		item.Status.JobIDFinished = item.Status.JobID
		due := func(ago time.Duration) bool {
			at := landscaper.NewTime(time.Now().Add(-ago))
			item.Status.LastReconcileTime = &at
			outcomes, err := w.Plugin.RunHooks(w.Context(), hook.ShouldReconcile, item, nil)
			if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil || outcomes[0].Result == nil {
				w.Fatalf("expected one opinion, but found %+v, %v", outcomes, err)
			}
			return !outcomes[0].Result.AbortReconcile
		}
		if due(time.Minute) {
			w.Error("expected that the item is not due after a minute")
		}
		if !due(2 * time.Hour) {
			w.Error("expected that the item is due after two hours")
		}
		w.MustDelete(item)
	})
}

// TestNamespaceInTheChart: an item can be deleted although the namespace of its objects is one of them.
func TestNamespaceInTheChart(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		own := charts.File("templates/own.yaml", `apiVersion: v1
kind: Namespace
metadata: {name: {{ .Release.Namespace }}-own}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inner, namespace: {{ .Release.Namespace }}-own}
`)
		item := w.item(w.config(chart("plain", own), nil))
		w.MustSucceed(item)
		// Nothing empties a namespace here, as a controller does that an API server alone does not have; it ends all
		// the same.
		item.Status.Phase = landscaper.DeployItemPhaseInitDelete
		for range 3 {
			result := w.Do(plugintest.Delete, item)
			if result.Failed != nil {
				w.Fatalf("expected no failure, but found: %s", result)
			}
		}
		if left := w.managed(item); slices.Contains(left, "ConfigMap inner") {
			w.Errorf("expected the object in the namespace to be gone, but found %v", left)
		}
	})
}

// TestSteps: a job tells its work step by step, and not by one word for all.
func TestSteps(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		want := []string{"ReadChart", "Install", "LoadChart", "Render", "CreateObjects", "Export"}
		if w.plain {
			want = []string{"ReadChart", "Render", "LoadChart", "Render", "Apply", "Export"}
		}
		item := w.item(w.config(chart("plain"), nil, object{"exports": object{"exports": []any{object{
			"key": "copies", "jsonPath": ".data.copies", "fromResource": w.reference("shop-plain-greeting"),
		}}}}))
		if diff := cmp.Diff(want, w.stepsOf(w.MustSucceed(item), "")); diff != "" {
			w.Errorf("-want +got:\n%s", diff)
		}
		w.MustDelete(item)
	})
}
