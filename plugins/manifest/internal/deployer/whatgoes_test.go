package deployer_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

func TestRepairedObjectIsNotOrphanedByACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	if err := w.Objects(configMaps).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Plugin.Reconcile(t.Context(), w.CallOf(item)) // what it returns is lost
	w.MustGet(configMaps, "a")
	if result := w.Do(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.Get(configMaps, "a") != nil {
		t.Error("the object that the item has created is orphaned")
	}
}

func TestRecreatedObjectIsNotOrphanedByACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cm := func(value string) object { return with(w.configMap("a", object{"a": value}), "immutable", true) }
	item := w.item(config(cm("1")))
	w.mustSucceed(item)
	c := config(cm("2"))
	c["manifests"].([]any)[0].(object)["recreate"] = true
	w.SetConfig(item, c)
	w.Plugin.Reconcile(t.Context(), w.CallOf(item)) // what it returns is lost
	w.MustGet(configMaps, "a")
	if result := w.Do(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.Get(configMaps, "a") != nil {
		t.Error("the object that the item has created is orphaned")
	}
}

// An object may be served by two groups.
func TestObjectThatMovesToAnotherGroupStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	metadata := object{"name": "a", "namespace": w.Namespace}
	old := object{
		"apiVersion": "v1", "kind": "Event", "metadata": metadata, "type": "Normal", "reason": "r", "action": "act",
		"reportingComponent": "example.org/x", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z",
		"involvedObject": object{"kind": "Pod", "namespace": w.Namespace, "name": "p"}, "message": "m",
	}
	newer := object{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata, "type": "Normal", "reason": "r", "action": "act",
		"reportingController": "example.org/x", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z",
		"regarding": object{"kind": "Pod", "namespace": w.Namespace, "name": "p"}, "note": "m",
	}
	item := w.item(config(old))
	w.mustSucceed(item)
	w.SetConfig(item, config(newer))
	w.mustSucceed(item)
	if w.Get(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "a") == nil {
		t.Error("the object was deleted although the item wants it")
	}
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

// The addresses and ports of a Service are its own, and no reason against a new one.
func TestRecreateServiceWithNodePort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	svc := func(ip string) object {
		return object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s", "namespace": w.Namespace},
			"spec": object{"type": "NodePort", "clusterIP": ip, "ports": []any{object{"port": 80, "nodePort": 30012}}}}
	}
	// The API server gives out addresses below 16 and ports below 30086 last, so other tests' Services have none of them.
	item := w.item(config(svc("10.0.0.12")))
	w.mustSucceed(item)
	c := config(svc("10.0.0.13"))
	w.SetConfig(item, c)
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "set recreate: true")
	c["manifests"].([]any)[0].(object)["recreate"] = true
	w.SetConfig(item, c)
	w.mustSucceed(item)
}

func TestBadAPIVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(
		object{"apiVersion": "a/b/c", "kind": "X", "metadata": object{"name": "a"}},
		object{"apiVersion": "a/b/d", "kind": "Y", "metadata": object{"name": "a"}}))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "manifests[0].manifest.apiVersion")
}

// An object is the same in all versions of its kind, even in one that is not served.
func TestIgnoredObjectOfAnUnknownVersionStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cm := func(version string) object {
		return object{"apiVersion": version, "kind": "ConfigMap", "metadata": object{"name": w.Namespace}}
	}
	item := w.item(configOf(entry(cm("v1"), object{})))
	w.mustSucceed(item)
	w.SetConfig(item, configOf(entry(cm("v2"), object{"policy": "ignore"})))
	w.mustSucceed(item)
	if _, err := w.Admin.Resource(configMaps).Namespace("default").Get(t.Context(), w.Namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("an object with the policy ignore was deleted: %v", err)
	}
}

// Who loses an object is told, also when it is deleted to be created anew.
func TestRecreateTellsOfTheTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cm := func(value string) object { return with(w.configMap("a", object{"a": value}), "immutable", true) }
	first := w.item(config(cm("1")))
	w.mustSucceed(first)
	second := w.item(configOf(entry(cm("2"), object{"recreate": true})))
	second.Name = "second"
	result := w.mustSucceed(second)
	if !strings.Contains(strings.Join(eventsOf(result), "\n"), "TakenOver") {
		t.Errorf("nobody was told of the takeover: %q", eventsOf(result))
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

// Who stops to manage an object says so, whatever the reason.
func TestIgnoredObjectIsLeftWithAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, configOf(entry(w.configMap("a", nil), object{"policy": "ignore"})))
	if got := eventsOf(w.mustSucceed(item)); len(got) != 1 || !strings.Contains(got[0], "LeftOnTarget: ConfigMap "+w.Namespace+"/a stays on the target: its policy is ignore") {
		t.Errorf("found the events %q", got)
	}
}
