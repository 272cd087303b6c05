package deployer_test

import "testing"

// TestKeptInsideWhatGoes: a Namespace that is removed from an item, and later the item, leaves what is kept in it.
func TestKeptInsideWhatGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := w.Namespace + "-inner"
	namespace := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": inner}}
	key := object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "key", "namespace": inner}}
	keep := entry(key, object{"policy": "keep"})
	item := w.item(configOf(entry(namespace, nil), keep))
	w.mustSucceed(item)
	uid := w.At(inner).MustGet(secrets, "key").GetUID()

	stays := "Secret " + inner + "/key stays"
	w.SetConfig(item, configOf(keep))
	w.mustTell(w.mustSucceed(item), "LeftOnTarget: Namespace "+inner+" stays on the target: "+stays+", and would be deleted with it")
	w.mustTell(w.mustDelete(item), "LeftOnTarget: "+stays+" on the target: policy keep")
	if live := w.At(inner).MustGet(secrets, "key"); live.GetUID() != uid {
		t.Errorf("expected the Secret to be the same, but found the UID %s after %s", live.GetUID(), uid)
	}
	if w.MustGet(namespaces, inner).GetDeletionTimestamp() != nil {
		t.Error("expected the Namespace to stay, but it is being deleted")
	}
}

// TestDefinitionOfOthers: an item does not delete a CustomResourceDefinition that was there before it.
func TestDefinitionOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition := w.Create(crds, w.crd("Engine"))
	item := w.item(config(w.crd("Engine")))
	w.mustSucceed(item)
	w.mustSucceed(item) // a later job does not forget it
	w.mustTell(w.mustDelete(item), "LeftOnTarget: CustomResourceDefinition "+definition.GetName()+
		" stays on the target: it existed before this deploy item has applied it")
	if live := w.MustGet(crds, definition.GetName()); live.GetDeletionTimestamp() != nil {
		t.Error("expected the definition to stay, but it is being deleted")
	}
}
