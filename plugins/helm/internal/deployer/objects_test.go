package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

var clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}

// TestUpdateStrategy: without a release the item says how objects become what the chart says. What each strategy does
// is in the tests of package apply.
// Rule (helm.md#without-a-release): `updateStrategy` says how objects are updated.
func TestUpdateStrategy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	merges := object{"updateStrategy": "merge"}
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, withoutRelease, merges))
	w.MustSucceed(item)
	w.Patch(configMaps, "shop-plain-greeting", `{"data":{"greeting":"theirs"}}`)
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}, withoutRelease, merges))
	w.MustSucceed(item)
	w.mustGreet("theirs")
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}, withoutRelease))
	w.MustSucceed(item)
	w.mustGreet("two")
	w.MustDelete(item)
}

// TestIgnoredFields: what has no effect in a mode is told. All such fields are in the tests of package config.
// Rule (helm.md#the-helm-deployer): A field without effect causes an `IgnoredField` event.
func TestIgnoredFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	groups := []any{object{"predefinedResourceGroup": object{"type": "namespaced-resources"}}}
	item := w.item(w.config(chart("plain"), nil, object{"updateStrategy": "apply", "deletionGroups": groups}))
	said := w.mustWarn(w.MustSucceed(item), "IgnoredField")
	if !strings.Contains(said, "updateStrategy") || !strings.Contains(said, "deletionGroups") {
		t.Errorf("expected an event that names both fields, but found %q", said)
	}
	w.MustDelete(item)
}

// mustWarn returns the message of the event with the reason.
func (w *world) mustWarn(result *sdktest.Result, reason string) string {
	w.Helper()
	for _, m := range result.Messages {
		if m.Event != nil && m.Event.Reason == reason {
			return m.Event.Message
		}
	}
	w.Errorf("expected an event %s, but found %+v", reason, result.Messages)
	return ""
}

// TestDeletionGroups: without a release they say what goes, during an update as at the end. The rest is in the tests of
// package remove.
// Rule (helm.md#without-a-release): `deletionGroups` say which objects are deleted, for updates and deletions.
func TestDeletionGroups(t *testing.T) {
	t.Parallel()
	only := func(name string) []any {
		return []any{object{"customResourceGroup": object{"resources": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "names": []any{name}}}}}}
	}
	w := newWorld(t)
	more := charts.File("templates/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n")
	fields := object{"deletionGroupsDuringUpdate": only("shop-plain-settings"), "deletionGroups": only("more")}
	item := w.item(w.config(chart("plain", more), nil, withoutRelease, fields))
	w.MustSucceed(item)
	empty := chart("plain", charts.Without("templates/settings.yaml"), charts.Without("templates/greeting.yaml"), more)
	w.setConfig(item, w.config(empty, nil, withoutRelease, fields))
	w.MustSucceed(item)
	if diff := cmp.Diff([]string{"more", "shop-plain-greeting"}, w.Names(configMaps, "")); diff != "" {
		t.Errorf("what no group has stays, and is not managed any more: -want +got:\n%s", diff)
	}
	w.setConfig(item, w.config(chart("plain", more), nil, withoutRelease, fields))
	w.MustSucceed(item)
	w.MustDelete(item)
	if diff := cmp.Diff([]string{"shop-plain-greeting", "shop-plain-settings"}, w.Names(configMaps, "")); diff != "" {
		t.Errorf("afterwards: -want +got:\n%s", diff)
	}
}

// TestNamespacesOfObjects: an object that names no namespace is in that of the release, if its kind has namespaces;
// lists are their items, and what renders to nothing is nothing.
// Rule (helm.md#the-helm-deployer): An object without a namespace is in the namespace of the release.
func TestNamespacesOfObjects(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w, other := newWorld(t), newWorld(t)
		more := charts.File("templates/more.yaml", `# nothing but a comment
---
{{- if .Values.nothing }}
nothing: at all
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Namespace }}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere, namespace: `+other.Namespace+`}}
`)
		item := w.item(w.config(chart("plain", more, charts.File("templates/NOTES.txt", "{{ .Release.Name }}: no object")), nil, mode))
		w.MustSucceed(item)
		if diff := cmp.Diff([]string{"own", "shop-plain-greeting", "shop-plain-settings"}, w.Names(configMaps, "")); diff != "" {
			t.Errorf("in the release's namespace: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"elsewhere"}, other.Names(configMaps, "")); diff != "" {
			t.Errorf("in another one: -want +got:\n%s", diff)
		}
		w.DeleteAfter(clusterRoles, w.Namespace)
		role, err := w.Objects(clusterRoles).Get(t.Context(), w.Namespace, metav1.GetOptions{})
		if err != nil || role.GetNamespace() != "" {
			t.Errorf("expected the cluster role, but found %v, %v", role, err)
		}
		managed := []string{
			"ClusterRole " + w.Namespace, "ConfigMap elsewhere", "ConfigMap own", "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings",
		}
		if diff := cmp.Diff(managed, w.managed(item)); diff != "" {
			t.Errorf("the provider status: -want +got:\n%s", diff)
		}
		w.Requests.Take()
		plugintest.NewJob(item)
		w.MustSucceed(item)
		if writes := w.Requests.Writes(); len(writes) > 0 {
			t.Errorf("expected no write without a change, but found %v", writes)
		}
		w.MustDelete(item)
		if got := append(w.Names(configMaps, ""), other.Names(configMaps, "")...); len(got) > 0 {
			t.Errorf("after the deletion there is still %v", got)
		}
		if _, err := w.Objects(clusterRoles).Get(t.Context(), w.Namespace, metav1.GetOptions{}); err == nil {
			t.Error("after the deletion there is still the cluster role")
		}
	})
}

// TestNamespaceOfTheRelease: it has to be there, unless it may be created, and stays then; one that is there is left as
// it is.
// Rule (helm.md#the-helm-deployer): `createNamespace` creates the namespace of a release, and it stays.
func TestNamespaceOfTheRelease(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		missing := w.Namespace + "-missing"
		item := w.item(w.config(chart("plain"), nil, mode, object{"namespace": missing}))
		w.MustFail(w.Do(plugintest.Reconcile, item), nil, missing, "not found")
		w.setConfig(item, w.config(chart("plain"), nil, mode, object{"namespace": missing, "createNamespace": true}))
		w.MustSucceed(item)
		in := w.at(missing)
		in.mustGreet("hello")
		w.Patch(namespaces, missing, `{"metadata":{"labels":{"team":"roses"}}}`)
		w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}, mode, object{"namespace": missing, "createNamespace": true}))
		w.MustSucceed(item)
		in.mustGreet("two")
		w.MustDelete(item)
		in.mustGreet(nil)
		created, err := w.Objects(namespaces).Get(t.Context(), missing, metav1.GetOptions{})
		if err != nil || created.GetDeletionTimestamp() != nil || created.GetLabels()["team"] != "roses" {
			t.Errorf("expected the namespace to stay when the item is deleted, with the label of others, but found %v, %v", created, err)
		}

		labelled := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{
			"name": w.Namespace + "-old", "labels": object{"team": "roses"},
		}}}
		if _, err := w.Objects(namespaces).Create(t.Context(), labelled, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		item = w.item(w.config(chart("plain"), nil, mode, object{"namespace": labelled.GetName(), "createNamespace": true}))
		w.MustSucceed(item)
		after, err := w.Objects(namespaces).Get(t.Context(), labelled.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if after.GetLabels()["team"] != "roses" || after.GetLabels()["pergola.dev/deployitem"] != "" {
			t.Errorf("expected the namespace as it was, but found the labels %v", after.GetLabels())
		}
		w.MustDelete(item)
	})
}

// TestItemsOfOneNamespace: several items may create their namespace. The first one does, and they leave each other
// alone.
// Rule (helm.md#without-a-release): The namespace of `createNamespace` may be shared by several items.
func TestItemsOfOneNamespace(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		of := func(name string) *landscaper.DeployItem {
			return w.itemOf(name, w.config(chart("plain"), nil, mode, object{"name": name, "namespace": w.Namespace + "-shared", "createNamespace": true}))
		}
		one, two := of("one"), of("two")
		for range 2 {
			for _, item := range []*landscaper.DeployItem{one, two} {
				plugintest.NewJob(item)
				for _, m := range w.MustSucceed(item).Messages {
					if m.Event != nil && m.Event.Warning {
						t.Errorf("expected that the items do not meet, but found %+v", m.Event)
					}
				}
			}
		}
		w.MustDelete(one)
		plugintest.NewJob(two)
		w.MustSucceed(two)
		w.MustDelete(two)
	})
}

// TestFailedApplyForgetsNothing: what a failed job could not clean up goes when the chart is mended.
func TestFailedApplyForgetsNothing(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		item := w.item(w.config(chart("plain"), nil, mode))
		w.MustSucceed(item)
		rejected := charts.File("templates/bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndata: {the key: is not valid}\n")
		short := charts.Without("templates/settings.yaml")
		w.setConfig(item, w.config(chart("plain", short, rejected), nil, mode))
		w.MustFail(w.Do(plugintest.Reconcile, item), []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}, "bad", "plain/templates/bad.yaml")
		w.setConfig(item, w.config(chart("plain", short), nil, mode))
		w.MustSucceed(item)
		if diff := cmp.Diff([]string{"shop-plain-greeting"}, w.Names(configMaps, "")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		w.MustDelete(item)
		if got := w.Names(configMaps, ""); len(got) > 0 {
			t.Errorf("after the deletion there is still %v", got)
		}
	})
}
