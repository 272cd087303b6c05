package prune_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func keep(e entry) entry {
	e.Policy = managedresource.PolicyKeep
	return e
}

func keyOf(e entry) object.Key { return object.KeyOfReference(e.Resource) }

// TestStaysWithWhatIsKept: an object stays with those that would be deleted with it and stay themselves.
// Rule (manifest.md#deletion): An object that stays is not deleted with its Namespace, its CustomResourceDefinition or
// its owner.
func TestStaysWithWhatIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		// set returns what is deleted: the outer object first, which is to stay.
		set    func(w *world) prune.Deletion
		within string // part of why the outer object stays; empty if it goes
		left   int    // how many stay beside it
	}{
		"namespace": {reason: "the Secret is to be kept", within: "Secret", left: 1, set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			kept := keep(w.create(secrets, outer.Resource.Name, "key", nil))
			return w.deletion("", outer, kept, w.create(configMaps, outer.Resource.Name, "goes", nil))
		}},
		"namespace in an early group": {reason: "the order does not matter", within: "Secret", left: 1, set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			kept := keep(w.create(secrets, outer.Resource.Name, "key", nil))
			return w.deletion(`[{"predefinedResourceGroup":{"type":"cluster-scoped-resources","forceDelete":true}}]`, outer, kept)
		}},
		"namespace of a group that deletes all": {reason: "all does not mean what is kept", within: "Secret", left: 1, set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			kept := keep(w.create(secrets, outer.Resource.Name, "key", nil))
			return w.deletion(`[{"customResourceGroup":{"deleteAllResources":true,"resources":[{"apiVersion":"v1","kind":"Namespace",`+
				`"names":["`+outer.Resource.Name+`"]}]}}]`, outer, kept)
		}},
		"kept object that is gone": {reason: "there is nothing to keep", set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			kept := keep(w.create(secrets, outer.Resource.Name, "key", nil))
			w.delete(secrets, outer.Resource.Name, "key")
			return w.deletion("", outer, kept)
		}},
		"definition": {reason: "with it its resources go", within: "Vase", left: 1, set: func(w *world) prune.Deletion {
			outer, vases := w.crd("Vase")
			return w.deletion("", outer, keep(w.create(vases, w.Namespace, "precious", map[string]any{"kind": "Vase"})))
		}},
		"owner": {reason: "the garbage collector deletes what it owns", within: "Secret", left: 1, set: func(w *world) prune.Deletion {
			outer := w.configMap("owner")
			return w.deletion("", outer, keep(w.create(secrets, w.Namespace, "owned", map[string]any{"metadata": map[string]any{
				"ownerReferences": []any{map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(outer.Resource.UID),
				}},
			}})))
		}},
		// Rule (manifest.md#deletion): An owner of a still wanted object stays.
		"owner of what is still wanted": {reason: "the update has applied it", within: "Secret", set: func(w *world) prune.Deletion {
			outer := w.configMap("owner")
			d := w.deletion("", outer)
			d.Owned = []objects.Owned{{
				Key:    object.Key{Kind: "Secret", Namespace: w.Namespace, Name: "owned"},
				Owners: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: outer.Resource.UID}},
			}}
			return d
		}},
		"owner of the owner": {reason: "both go with it", within: "Secret", left: 1, set: func(w *world) prune.Deletion {
			outer := w.configMap("owner")
			ownedBy := func(name string, uid types.UID) map[string]any {
				return map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": string(uid),
				}}}}
			}
			middle := w.create(configMaps, w.Namespace, "middle", ownedBy("owner", outer.Resource.UID))
			return w.deletion("", outer, keep(w.create(secrets, w.Namespace, "owned", ownedBy("middle", middle.Resource.UID))))
		}},
		"namespace of what is still wanted": {reason: "the update has applied it", within: "Secret", set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			d := w.deletion("", outer)
			d.Spare = map[object.Key]bool{{Kind: "Secret", Namespace: outer.Resource.Name, Name: "wanted"}: true}
			return d
		}},
		// Rule (manifest.md#deletion): A Namespace with an object of another item stays.
		"namespace with an object of another item": {reason: "it is left to that", within: "ConfigMap", left: 1, set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			taken := w.create(configMaps, outer.Resource.Name, "taken", map[string]any{"metadata": map[string]any{
				"labels": map[string]any{"pergola.dev/deployitem": "another.item"},
			}})
			return w.deletion("", outer, taken)
		}},
		"kept by annotation": {reason: "what decides is read from the object", within: "Secret", left: 1, set: func(w *world) prune.Deletion {
			outer := w.createNamespace(w.Namespace + "-outer")
			d := w.deletion("", outer, w.create(secrets, outer.Resource.Name, "key", nil))
			d.Kept = func(_ managedresource.ManagedResourceStatus, live metav1.Object) string {
				if live.GetName() == "key" {
					return "annotation"
				}
				return ""
			}
			return d
		}},
		"definition that existed": {reason: "the deploy item has only changed it", within: "it existed before", set: func(w *world) prune.Deletion {
			outer, _ := w.crd("Engine")
			outer.Existed = true
			return w.deletion("", outer)
		}},
		// Rule (manifest.md#deletion): An item does not delete a CustomResourceDefinition with resources of others.
		"definition with resources of others": {reason: "they would be lost", within: "Engine", set: func(w *world) prune.Deletion {
			outer, engines := w.crd("Engine")
			mine := w.create(engines, w.Namespace, "mine", map[string]any{"kind": "Engine"})
			w.create(engines, w.Namespace, "theirs", map[string]any{"kind": "Engine", "metadata": map[string]any{
				"labels": map[string]any{"app": "other"},
			}})
			return w.deletion("", outer, mine)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := c.set(w)
			outer := d.Entries[0]
			changes, err := prune.Diff(t.Context(), w.client, d)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(changes, func(x sdk.Change) bool { return x.Object == keyOf(outer).String() })
			if i < 0 || (changes[i].Action == sdk.ActionKeep) != (c.within != "") || !strings.Contains(changes[i].Note, c.within) {
				t.Errorf("%s: expected the diff to say %q, but found %+v", c.reason, c.within, changes)
			}
			result := w.mustRun(d)
			if c.within == "" {
				if state := w.state(outer); state == "there" || len(result.Left) > 0 {
					t.Errorf("%s: expected it to go, but it is %s; left: %q", c.reason, state, left(result))
				}
				return
			}
			w.mustBe("there", outer)
			i = slices.IndexFunc(result.Left, func(l prune.Left) bool { return l.Key == keyOf(outer) })
			if i < 0 || !strings.Contains(result.Left[i].Why, c.within) || len(result.Left) != 1+c.left {
				t.Errorf("%s: expected it to stay over %q, but found %q; waiting: %q", c.reason, c.within, left(result), result.Waiting)
			}
		})
	}
}
