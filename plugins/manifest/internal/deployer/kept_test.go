package deployer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestKeptInsideWhatGoes: a Namespace that is removed from an item, and later the item, leaves what is kept in it.
// Rule (manifest.md#deletion): A Namespace removed from an item stays with the objects kept in it.
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

// TestRecreateOverWhatIsKept: an object is not deleted to be created anew if that deletes what the item keeps.
// Rule (manifest.md#immutable-fields): An object is not recreated if a kept object would be deleted with it.
func TestRecreateOverWhatIsKept(t *testing.T) {
	t.Parallel()
	recreate := object{"recreate": true}
	for name, set := range map[string]func(w *world) (before, after, kept object, resource plugintest.Resource){
		"owner": func(w *world) (before, after, kept object, resource plugintest.Resource) {
			frozen := func(colour string) object {
				return with(w.configMap("outer", object{"colour": colour}), "immutable", true)
			}
			uid := w.Create(configMaps, frozen("red")).GetUID()
			kept = object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "inner", "namespace": w.Namespace, "ownerReferences": []any{
				object{"apiVersion": "v1", "kind": "ConfigMap", "name": "outer", "uid": string(uid)},
			}}}
			return frozen("red"), frozen("green"), kept, secrets
		},
		"definition": func(w *world) (before, after, kept object, resource plugintest.Resource) {
			before, resource = w.CRD("Vase")
			after = with(before, "spec", with(before["spec"].(object), "scope", "Cluster"))
			kept = object{"apiVersion": resource.Group + "/v1", "kind": "Vase", "metadata": object{"name": "inner", "namespace": w.Namespace}}
			return before, after, kept, resource
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before, after, kept, resource := set(w)
			keep := entry(kept, object{"policy": "keep"})
			item := w.item(configOf(entry(before, recreate), keep))
			w.mustSucceed(item)
			uid := w.MustGet(resource, "inner").GetUID()
			const why = "inner stays, and would be deleted with it"
			for _, configuration := range []object{
				configOf(entry(after, recreate), keep),
				configOf(entry(after, recreate)), // it was kept until now
				configOf(entry(after, recreate), entry(kept, object{"policy": "ignore"})),
			} {
				w.SetConfig(item, configuration)
				for object, c := range w.diff(item) {
					if c.Action == sdk.ActionRecreate || c.Action == sdk.ActionFail && !strings.Contains(c.Note, why) {
						t.Errorf("expected it to be foreseen that %s, but found %s of %s: %s", why, c.Action, object, c.Note)
					}
				}
				w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "it is not deleted to be created anew, since "+kept["kind"].(string), why)
				if w.MustGet(resource, "inner").GetUID() != uid {
					t.Fatal("expected it to stay")
				}
			}
		})
	}
}

// TestOwnerOfWhatIsWanted: a job leaves an object that a wanted one would go with, and a diff says so before.
// Rule (manifest.md#deletion): A diff names the owner of a still wanted object.
func TestOwnerOfWhatIsWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("owner", nil), w.configMap("wanted", nil)))
	w.mustSucceed(item)
	w.Patch(configMaps, "wanted", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]}}`,
		w.MustGet(configMaps, "owner").GetUID()))
	w.SetConfig(item, config(w.configMap("wanted", object{"a": "b"})))
	outer, inner := "ConfigMap "+w.Namespace+"/owner", "ConfigMap "+w.Namespace+"/wanted"
	if c := w.diff(item)[outer]; c.Action != sdk.ActionKeep || c.Note != inner+" stays, and would be deleted with it" {
		t.Errorf("expected the diff to say why it stays, but found %+v", c)
	}
	w.mustTell(w.mustSucceed(item), "LeftOnTarget: "+outer+" stays on the target: "+inner+" stays, and would be deleted with it")
}

// TestDefinitionOfOthers: an item does not delete a CustomResourceDefinition that was there before it.
// Rule (manifest.md#deletion): An item does not delete a CustomResourceDefinition that existed before it.
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
