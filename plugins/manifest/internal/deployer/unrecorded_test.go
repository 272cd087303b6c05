package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestDeletionWithoutStatus: an item whose provider status is lost deletes the objects of its manifests that bear its
// label, and tells how to find others.
func TestDeletionWithoutStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("stays", nil), w.configMap("removed", nil)))
	w.mustSucceed(item)
	theirs := w.configMap("theirs", nil)
	theirs["metadata"].(object)["labels"] = object{owner.Label: "another.item"}
	w.Create(configMaps, theirs)
	w.Patch(configMaps, "stays", `{"metadata":{"finalizers":["example.org/hold"]}}`)
	w.SetConfig(item, config(w.configMap("stays", nil), w.configMap("theirs", nil), w.configMap("missing", nil)))
	item.Status.ProviderStatus = nil

	told := "NoProviderStatus: the deploy item has no provider status: only objects of its manifests that bear its label are deleted, and there are "
	first := w.Do(plugintest.Delete, item)
	w.mustTell(first, told+"1; list what else it may have deployed with kubectl get KIND -A -l pergola.dev/deployitem="+w.Namespace+".item")
	w.Patch(configMaps, "stays", `{"metadata":{"finalizers":null}}`)
	w.mustTell(w.mustDelete(item))
	if w.Get(configMaps, "stays") != nil {
		t.Error("expected the object of the manifests to be deleted")
	}
	for _, name := range []string{"removed", "theirs"} {
		w.MustGet(configMaps, name)
	}

	// One that has never had a Target that works has deployed nothing.
	item = w.itemOf("unreachable", config(w.configMap("a", nil)))
	w.Call.Target = w.Target("target", nowhere())
	w.mustTell(w.mustDelete(item), told+"0, as far as they can be looked for (")
}
