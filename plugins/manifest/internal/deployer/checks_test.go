package deployer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// check is a custom readiness check of ConfigMaps of the test's namespace.
func (w *world) check(requirement object, names ...string) object {
	var selected []any
	for _, name := range names {
		selected = append(selected, object{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": w.Namespace})
	}
	return object{"custom": []any{object{"name": "check", "resourceSelector": selected, "requirements": []any{requirement}}}}
}

// TestChecksOfManagedObjects judges what the item itself has applied, as it was just read.
func TestChecksOfManagedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := object{"jsonPath": ".metadata.annotations.state", "operator": "==", "values": []any{object{"value": "done"}}}
	item := w.item(with(config(w.configMap("a", nil)), "readinessChecks", w.check(done, "a")))
	w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/a")
	w.Requests.Take()
	// The list of objects must not grow from one look to the next.
	for range 3 {
		w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/a")
		if got := w.Requests.Take(); len(got) != 1 {
			t.Errorf("expected a look to cost one request, but found %v", got)
		}
	}
	w.Patch(configMaps, "a", `{"metadata":{"annotations":{"state":"done"}}}`)
	w.mustSucceed(item)
}

// TestChecksByLabel: all objects with the labels must meet the requirements, and there must be one at least.
func TestChecksByLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Labels are looked for in all namespaces, so that the value has to be the test's own.
	check := object{
		"name": "roses", "labelSelector": object{"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": object{"bed": w.Namespace}},
		"requirements": []any{object{"jsonPath": ".data.state", "operator": "==", "values": []any{object{"value": "blooming"}}}},
	}
	item := w.item(with(config(w.configMap("a", nil)), "readinessChecks", object{"custom": []any{check}}))
	w.mustWait(w.Do(plugintest.Reconcile, item), `readiness check "roses"`, "bed="+w.Namespace)
	for _, name := range []string{"climbing", "wild"} {
		rose := w.configMap(name, object{"state": "blooming"})
		rose["metadata"].(object)["labels"] = object{"bed": w.Namespace}
		w.Create(configMaps, rose)
	}
	w.Patch(configMaps, "wild", `{"data":{"state":"budding"}}`)
	w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/wild", `"budding"`)
	w.Patch(configMaps, "wild", `{"data":{"state":"blooming"}}`)
	w.mustSucceed(item)
}

func (w *world) setStatus(resource schema.GroupVersionResource, name string, status object) {
	w.Helper()
	patch, err := json.Marshal(object{"status": status})
	if err != nil {
		w.Fatal(err)
	}
	w.Patch(resource, name, string(patch), "status")
}

// TestFailedJobFailsEarly: what has given up is not waited for.
func TestFailedJobFailsEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running := w.running(nil)
	item := w.item(config(running, w.deployment("web", "nginx")))
	w.mustWait(w.Do(plugintest.Reconcile, item), "Job "+w.Namespace+"/job", "Deployment "+w.Namespace+"/web")
	w.setStatus(jobs, "job", jobFailed)
	result := w.Do(plugintest.Reconcile, item)
	w.MustFail(result, []landscaper.ErrorCode{landscaper.ErrorNoRetry}, "Readiness", "ObjectFailed", "Job "+w.Namespace+"/job", "it has tried often enough")
	if strings.Contains(result.String(), "/web") {
		t.Errorf("expected only what has failed, but found: %s", result)
	}
}
