package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// What is said about objects beside them. What each policy and strategy does is in the tests of packages apply and
// prune.

// TestSettingsOfAnEntry follows the objects of a List from their creation to their deletion.
// Rule (manifest.md#manifests): The settings of an entry hold for each object of a `List`.
func TestSettingsOfAnEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := w.configMap("a", object{"state": "new", "once": "x"})
	held["metadata"].(object)["finalizers"] = []any{"example.org/hold"}
	list := object{"apiVersion": "v1", "kind": "List", "items": []any{held, w.configMap("b", nil)}}
	of := func(entries ...object) object {
		return with(configOf(append(entries, entry(w.deployment("web", "nginx"), nil))...), "exports",
			[]any{export("state", ".data.state", w.Namespace, "a")})
	}
	item := w.item(of(entry(list, object{
		"annotateBeforeCreate": object{"example.org/made": "here"},
		"patchAfterDeployment": object{"data": object{"state": "deployed", "once": nil}},
		"annotateBeforeDelete": object{"example.org/confirmed": "true"},
		"patchBeforeDelete":    object{"data": object{"state": "going"}},
	})))
	w.mustWait(w.Do(plugintest.Reconcile, item), "Deployment "+w.Namespace+"/web")
	for name, data := range map[string]any{"a": object{"state": "new", "once": "x"}, "b": nil} {
		o := w.MustGet(configMaps, name)
		if diff := cmp.Diff(data, o.Object["data"]); diff != "" || o.GetAnnotations()["example.org/made"] != "here" {
			t.Errorf("%s, before all is ready: annotations %v, data: -want +got:\n%s", name, o.GetAnnotations(), diff)
		}
	}
	w.ready("web")
	if diff := cmp.Diff(object{"state": "new"}, w.mustSucceed(item).Succeeded.Exports); diff != "" {
		t.Errorf("exports: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(object{"state": "deployed"}, w.data("a")); diff != "" {
		t.Errorf("after the deployment: -want +got:\n%s", diff)
	}
	w.Requests.Take()
	w.mustSucceed(item)
	if got := w.Requests.Writes(); len(got) > 0 {
		t.Errorf("a second job without a change wrote %v", got)
	}

	w.SetConfig(item, config(w.deployment("web", "nginx")))
	w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/a", "example.org/hold")
	o := w.MustGet(configMaps, "a")
	if diff := cmp.Diff(object{"state": "going"}, o.Object["data"]); diff != "" ||
		o.GetAnnotations()["example.org/confirmed"] != "true" || o.GetDeletionTimestamp() == nil {
		t.Errorf("before the deletion: %v, data: -want +got:\n%s", o.Object["metadata"], diff)
	}
	w.release("a")
	w.mustSucceed(item)
}

// TestPolicyOfAnOrphan takes objects out of the manifests, or sets their policy to ignore.
// Rule (manifest.md#manifests): An object that leaves the manifests or becomes `ignore` goes or stays by its policy.
func TestPolicyOfAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := []object{
		entry(w.configMap("managed", nil), object{"policy": "manage"}), entry(w.configMap("kept", nil), object{"policy": "keep"}),
		entry(w.configMap("fixed", nil), object{"policy": "immutable"}), entry(w.configMap("ignored", nil), object{"policy": "manage"}),
		entry(w.configMap("fallback", nil), object{"policy": "fallback"}), entry(w.configMap("lost", nil), object{"policy": "fallback"}),
	}
	item := w.item(configOf(all...))
	w.mustSucceed(item)
	w.Patch(configMaps, "lost", `{"metadata":{"labels":null}}`)

	w.SetConfig(item, configOf(entry(w.configMap("ignored", nil), object{"policy": "ignore"})))
	w.mustTell(w.mustSucceed(item), "LeftOnTarget: ConfigMap "+w.Namespace+"/ignored stays on the target: its policy is ignore",
		"LeftOnTarget: ConfigMap "+w.Namespace+"/kept stays on the target: policy keep",
		"LeftOnTarget: ConfigMap "+w.Namespace+"/lost stays on the target: policy fallback")
	for name, left := range map[string]bool{"managed": false, "kept": true, "fixed": false, "ignored": true, "fallback": false, "lost": true} {
		if got := w.Get(configMaps, name) != nil; got != left {
			t.Errorf("%s: left on the target is %t", name, got)
		}
	}
	w.mustDelete(item)
	if w.Get(configMaps, "ignored") == nil {
		t.Error("an object with the policy ignore was deleted")
	}
}

// TestRemediesAreFieldsOfTheVersion: what an error proposes to set is where the configuration can have it, or is not
// proposed.
func TestRemediesAreFieldsOfTheVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMaps, w.configMap("theirs", object{"colour": "red"}))
	conflict := with(config(w.configMap("theirs", object{"colour": "green"})), "updateStrategy", "apply")
	w.MustFail(w.Do(plugintest.Reconcile, w.itemOf("conflict", conflict)), plugintest.ConfigurationProblem,
		"manifests[0].manifest: apply ConfigMap "+w.Namespace+"/theirs", "FieldConflict", "set force: true at manifests[0]")

	older := func(colour string) object {
		return object{
			"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
			"manifests": []any{with(w.configMap("fixed", object{"colour": colour}), "immutable", true)},
		}
	}
	item := w.itemOf("older", older("red"))
	w.mustSucceed(item)
	w.SetConfig(item, older("green"))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "manifests[0]: apply", "give the object another name")
	if diff := cmp.Diff(object{"colour": "red"}, w.data("fixed")); diff != "" {
		t.Errorf("after an error: -want +got:\n%s", diff)
	}
}
