package deployer_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// A misspelt field of a deletion group must not widen what is deleted.
func TestUnknownFieldInDeletionGroupsStopsTheDeletion(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	other := &unstructured.Unstructured{Object: elsewhere.configMap(w.Namespace, nil)}
	if _, err := elsewhere.Objects(configMaps).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.SetConfig(item, with(config(w.configMap("a", nil)), "deletionGroups", []any{object{"customResourceGroup": object{
		"deleteAllResources": true,
		"resources":          []any{object{"apiVersion": "v1", "kind": "ConfigMap", "names": []any{w.Namespace, "a"}, "namespace": []any{w.Namespace}}},
	}}}))
	result := w.Do(plugintest.Delete, item)
	if elsewhere.Get(configMaps, w.Namespace) == nil {
		t.Error("an object of another namespace was deleted")
	}
	w.MustFail(result, plugintest.ConfigurationProblem, "namespace")
}

// Another Target may lead to the same cluster.
func TestDeleteAllResourcesSparesWhatIsWantedWhateverTheTargetIsCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("wanted", nil), w.configMap("goes", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(w.configMap("wanted", nil)), "deletionGroupsDuringUpdate", []any{
		object{"customResourceGroup": object{
			"deleteAllResources": true, "targetName": "alias",
			"resources": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": []any{w.Namespace}}},
		}},
		object{"predefinedResourceGroup": object{"type": "namespaced-resources"}},
	}))
	alias := *w.Call.Target
	alias.Name, alias.Content = "alias", []byte(strings.ReplaceAll(string(w.Call.Target.Content), "test", "best"))
	w.Call.Targets = map[string]*sdk.Target{"alias": &alias}
	for range 5 {
		result := w.Do(plugintest.Reconcile, item)
		if result.Succeeded != nil {
			break
		}
	}
	if w.Get(configMaps, "wanted") == nil {
		t.Error("what the item wants was deleted")
	}
}

func TestEmptyAnnotationsAreSavedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(configOf(entry(w.configMap("a", nil), object{"annotateBeforeDelete": object{}})))
	w.mustSucceed(item)
	w.Requests.Take()
	result := w.Do(plugintest.Reconcile, item)
	if slices.Contains(w.Requests.Steps(), plugintest.StepSave) {
		t.Errorf("saved %s", result.ProviderStatus)
	}
}
