package deployer_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
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

func (w *world) setStatus(resource schema.GroupVersionResource, name string, status object) {
	w.Helper()
	patch, err := json.Marshal(object{"status": status})
	if err != nil {
		w.Fatal(err)
	}
	w.Patch(resource, name, string(patch), "status")
}
