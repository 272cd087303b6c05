package deployer_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/charts"
)

// What is known to go wrong in Landscaper's deployer, as far as the tests of the single features do not show it.

// TestMistakesInTheConfiguration: all of them are told at once, with their fields, before anything is asked of anybody.
// Rule (helm.md#the-helm-deployer): All errors in a configuration are reported at once, before any request.
func TestMistakesInTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil, object{
		"name": "Shop", "values": []any{}, "replicas": 2, "updateStrategy": "guess", "createNamespace": "yes",
		"helmDeploymentConfig": object{
			"install": object{"atomic": true, "retries": 3}, "uninstall": object{"timeout": "soon"},
		},
	}))
	w.mustRefuse(item, "spec.config", `unknown field "replicas"`, "createNamespace: ", "name: ",
		"values: ", "updateStrategy: ", "helmDeploymentConfig.install.retries: ", "helmDeploymentConfig.uninstall.timeout: ")
	if requests := w.Requests.Take(); len(requests) > 0 {
		t.Errorf("expected no request, but found %v", requests)
	}
	w.MustDelete(item)

	w.Configure(object{"strict": false})
	item = w.item(w.config(chart("plain"), nil, object{"replicas": 2}))
	w.mustWarn(w.MustSucceed(item), "UnknownField", `"replicas"`)
	w.MustDelete(item)
}

// TestCustomChecks: they are looked at with a release, too, and the job says what it waits for, and ends when it comes.
// Rule (helm.md#readiness-and-exports): A custom readiness check of the helm deployer is waited for.
func TestCustomChecks(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		// A label is looked for in all namespaces, and all tests share one cluster.
		own := object{"test": w.Namespace}
		check := object{
			"name":          "approved",
			"labelSelector": object{"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": own},
			"requirements": []any{object{
				"jsonPath": ".metadata.annotations.approved", "operator": "==", "values": []any{object{"value": "yes"}},
			}},
		}
		item := w.item(w.config(chart("plain"), object{"labels": own},
			object{"readinessChecks": object{"custom": []any{check}}}))
		for range 2 {
			w.mustWait(w.call(item), "approved", "shop-plain-settings")
			w.Patch(configMaps, "shop-plain-greeting", `{"metadata":{"annotations":{"approved":"yes"}}}`)
		}
		w.Patch(configMaps, "shop-plain-settings", `{"metadata":{"annotations":{"approved":"yes"}}}`)
		w.MustSucceed(item)
		w.MustDelete(item)
	})
}

// TestExportsThatAreNotThere: a job does not succeed without its exports. What may come is waited for, what cannot come
// is an error.
// Rule (helm.md#readiness-and-exports): The job waits for missing exports of objects; a missing value of the chart is
// an error.
func TestExportsThatAreNotThere(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), nil, object{"exports": object{"exports": []any{
			object{"key": "a", "jsonPath": ".Values.nothing.at.all"}, object{"key": "b", "jsonPath": ".Chart.version"},
		}}}))
		w.mustRefuse(item, "ExportMissing", `export "a"`, ".Values.nothing.at.all", `export "b"`,
			"begin with .Values")

		w.setConfig(item, w.config(chart("plain"), nil, object{"exportsFromManifests": []any{object{
			"key": "address", "jsonPath": ".data.address",
			"fromResource": w.reference("shop-plain-greeting"),
		}}}))
		w.mustWait(w.call(item), "address")
		w.Patch(configMaps, "shop-plain-greeting", `{"data":{"address":"here"}}`)
		if diff := cmp.Diff(map[string]any{"address": "here"}, w.MustSucceed(item).Succeeded.Exports); diff != "" {
			w.Errorf("the exports: -want +got:\n%s", diff)
		}
		w.MustDelete(item)
	})
}

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

// TestErrorsOfADeletionAreTold: Landscaper only logs them.
func TestErrorsOfADeletionAreTold(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), nil))
		w.MustSucceed(item)
		w.Requests.Fail(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/configmaps/shop-plain-greeting") {
				return errors.New("the network is gone")
			}
			return nil
		})
		item.Status.Phase = landscaper.DeployItemPhaseInitDelete
		result := w.Do(plugintest.Delete, item)
		w.MustFail(result, nil, "shop-plain-greeting", "the network is gone")
		w.Requests.Undisturbed()
		w.MustDelete(item)
		w.mustHave()
		w.mustHold()
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

// TestReleaseOfAnItemThatIsGone: it is taken over if the user says so, and goes with the item that has it then.
// Rule (helm.md#releases): `takeOwnership` takes over a release left behind by a deleted item.
func TestReleaseOfAnItemThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.MustSucceed(w.itemOf("gone", w.config(chart("plain"), nil)))
	item := w.item(w.config(chart("plain"), nil, object{"helmDeploymentConfig": object{"takeOwnership": true}}))
	w.mustWarn(w.MustSucceed(item), "TakenOver", w.Namespace+"/shop ", w.Namespace+".gone")
	w.mustHave("1 superseded", "2 deployed")
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustHave("1 superseded", "2 deployed")
	w.MustDelete(item)
	w.mustHave()
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
