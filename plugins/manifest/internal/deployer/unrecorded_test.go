package deployer_test

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestJobWithoutStatus: the first job of an item whose provider status is lost names what else bears its label, and takes
// only what it has applied itself for a sign that it is lost. A new item costs no request more.
// Rule (backup.md#items-without-their-status): The first job of an item with a lost provider status names other objects
// with its label.
func TestJobWithoutStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("stays", nil), w.configMap("removed", nil)))
	w.mustTell(w.mustSucceed(item))
	var lists []string
	for _, r := range w.Requests.Take() {
		if strings.Contains(r, "labelSelector") {
			lists = append(lists, r)
		}
	}
	if len(lists) > 0 {
		t.Errorf("expected that a new item lists nothing, but found %q", lists)
	}
	theirs := w.configMap("theirs", nil)
	theirs["metadata"].(object)["labels"] = object{owner.Label: "another.item"}
	w.Create(configMaps, theirs)
	others := w.itemOf("other", config(w.configMap("others", nil)))
	w.mustSucceed(others)

	w.SetConfig(item, config(w.configMap("stays", nil), w.configMap("new", nil)))
	item.Status.ProviderStatus = nil
	how := "list what else it may have deployed with kubectl get KIND -A -l pergola.dev/deployitem=" + w.Namespace + ".item"
	w.mustTell(w.mustSucceed(item), "NoProviderStatus: the deploy item has had no provider status, but has deployed ConfigMap "+w.Namespace+
		"/stays before; these objects bear its label and are not in its manifests, so delete what is not needed: ConfigMap "+
		w.Namespace+"/removed; "+how)
	w.MustGet(configMaps, "removed")
	plugintest.NewJob(item)
	w.mustTell(w.mustSucceed(item))
}

// TestDeletionWithoutStatus: an item whose provider status is lost deletes the objects of its manifests that bear its
// label, and tells how to find others.
// Rule (manifest.md#deletion): A deletion without a provider status deletes labelled objects of the manifests, and
// names its limits.
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
