package deployer_test

import (
	"sync"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

func export(key, path, namespace, name string) object {
	return object{"key": key, "jsonPath": path, "fromResource": object{
		"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": namespace,
	}}
}

func TestConcurrentItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var jobs sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		jobs.Go(func() {
			item := w.itemOf(name, config(w.configMap(name, nil), w.configMap(name+"-more", nil), w.custom("Gadget"+name, name), w.crd("Gadget"+name)))
			if result := w.UntilDone(plugintest.Reconcile, item); result.Succeeded == nil {
				t.Errorf("item %s: expected success, but found: %s", name, result)
				return
			}
			if result := w.UntilDone(plugintest.Delete, item); result.Succeeded == nil {
				t.Errorf("item %s: expected the deletion to succeed, but found: %s", name, result)
			}
		})
	}
	jobs.Wait()
}
