package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// The deletion groups of a configuration.

func predefined(kind string) object {
	return object{"predefinedResourceGroup": object{"type": kind}}
}

func forced(kind string) object {
	return object{"predefinedResourceGroup": object{"type": kind, "forceDelete": true}}
}

// customGroup selects objects of a core kind; more are other fields of the selection.
func customGroup(kind string, more object) object {
	return object{"customResourceGroup": object{"resources": []any{with(with(more, "apiVersion", "v1"), "kind", kind)}}}
}

func deleteAll(group object) object {
	return object{"customResourceGroup": with(group["customResourceGroup"].(object), "deleteAllResources", true)}
}

func groups(all ...any) []any { return all }

// TestVersionsWithGroups: both versions of the configuration have deletion groups, for updates and for deletions.
// Rule (manifest.md#deletion): Both versions of the configuration have groups for deletions and for updates.
func TestVersionsWithGroups(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1alpha1", "v1alpha2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			of := func(names ...string) object {
				var list []any
				for _, name := range names {
					var m any = w.configMap(name, nil)
					if version == "v1alpha2" {
						m = object{"manifest": m}
					}
					list = append(list, m)
				}
				return object{
					"apiVersion": "manifest.deployer.landscaper.gardener.cloud/" + version, "kind": "ProviderConfiguration", "manifests": list,
					"deletionGroups":             groups(customGroup("ConfigMap", object{"names": []any{"goes-with-item"}})),
					"deletionGroupsDuringUpdate": groups(customGroup("ConfigMap", object{"names": []any{"goes-in-update"}})),
				}
			}
			left := func(name string) string {
				return "LeftOnTarget: ConfigMap " + w.Namespace + "/" + name + " stays on the target: no deletion group takes it"
			}
			item := w.item(of("goes-in-update", "left-in-update", "goes-with-item", "left-with-item"))
			w.mustSucceed(item)
			w.SetConfig(item, of("goes-with-item", "left-with-item"))
			w.mustTell(w.mustSucceed(item), left("left-in-update"))
			if diff := cmp.Diff([]string{"ConfigMap goes-with-item", "ConfigMap left-with-item"}, w.managed(item)); diff != "" {
				t.Errorf("managed after the update: -want +got:\n%s", diff)
			}
			w.mustTell(w.mustDelete(item), left("left-with-item"))
			for name, want := range map[string]bool{"goes-in-update": false, "left-in-update": true, "goes-with-item": false, "left-with-item": true} {
				if got := w.Get(configMaps, name) != nil; got != want {
					t.Errorf("%s: left on the target is %t", name, got)
				}
			}
		})
	}
}

// TestDeleteAllResourcesSparesWhatIsWanted, although another Target leads to the same cluster.
func TestDeleteAllResourcesSparesWhatIsWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("wanted", nil), w.configMap("goes", nil)))
	w.mustSucceed(item)
	all := deleteAll(customGroup("ConfigMap", object{"namespaces": []any{w.Namespace}}))
	all["customResourceGroup"].(object)["targetName"] = "alias"
	w.SetConfig(item, with(config(w.configMap("wanted", nil)), "deletionGroupsDuringUpdate", groups(all, predefined("namespaced-resources"))))
	alias := *w.Call.Target
	alias.Name, alias.Content = "alias", []byte(strings.ReplaceAll(string(w.Call.Target.Content), "test", "best"))
	w.Call.Targets = map[string]*sdk.Target{"alias": &alias}
	w.mustSucceed(item)
	if w.Get(configMaps, "wanted") == nil || w.Get(configMaps, "goes") != nil {
		t.Error("expected that what the item wants stays, and only that")
	}
}

// TestDeleteAllResourcesUntilNoneIsLeft: the item keeps an entry until the other objects are gone, too.
func TestDeleteAllResourcesUntilNoneIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.configMap("other", nil)
	other["metadata"].(object)["finalizers"] = []any{"example.org/hold"}
	w.Create(configMaps, other)
	all := deleteAll(customGroup("ConfigMap", object{"names": []any{"other"}}))
	item := w.item(with(config(w.configMap("managed", nil)), "deletionGroups", groups(predefined("namespaced-resources"), all)))
	w.mustSucceed(item)
	for range 2 {
		if result := w.Do(plugintest.Delete, item); result.InProgress == nil || len(w.managed(item)) != 1 {
			t.Fatalf("expected the deletion to go on with an entry, but found %s and %v", result, w.managed(item))
		}
	}
	if w.Get(configMaps, "managed") != nil {
		t.Error("expected the managed object to be deleted first")
	}
	w.Patch(configMaps, "other", `{"metadata":{"finalizers":null}}`)
	w.mustDelete(item)
	if w.Get(configMaps, "other") != nil || len(w.managed(item)) > 0 {
		t.Errorf("expected nothing to be left, but found %v", w.managed(item))
	}
}

// TestUpdateThatDropsItsWebhook: a webhook that nobody answers does not hold up the update that drops it.
// Rule (manifest.md#deletion): A silent webhook does not hold up the update without it.
func TestUpdateThatDropsItsWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.Namespace + "-dropped"
	w.DeleteAfter(plugintest.Webhooks, name)
	item := w.item(with(config(w.WebhookConfiguration(name, "nobody", "CREATE", configMaps)),
		"readinessChecks", object{"disableDefault": true}))
	w.mustSucceed(item)
	w.SetConfig(item, config(w.configMap("new", nil)))
	plugintest.NewJob(item)
	if result := w.Do(plugintest.Reconcile, item); !strings.Contains(result.String(), "failed calling webhook") {
		t.Fatalf("expected the webhook to be in the way, but found: %s", result)
	}
	w.mustSucceed(item)
	w.MustGet(configMaps, "new")
	if w.Get(plugintest.Webhooks, name) != nil {
		t.Error("expected the configuration of the webhook to be deleted")
	}
}
