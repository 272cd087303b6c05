package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

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
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "two"}, withoutRelease, merges))
	w.mustGreet("theirs")
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "two"}, withoutRelease))
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
	w.mustWarn(w.MustSucceed(item), "IgnoredField", "updateStrategy", "deletionGroups")
	w.MustDelete(item)
}

// TestDeletionGroups: without a release they say what goes, during an update as at the end. The rest is in the tests of
// package remove.
// Rule (helm.md#without-a-release): `deletionGroups` say which objects are deleted, for updates and deletions.
func TestDeletionGroups(t *testing.T) {
	t.Parallel()
	only := func(name string) []any {
		selected := object{"apiVersion": "v1", "kind": "ConfigMap", "names": []any{name}}
		return []any{object{"customResourceGroup": object{"resources": []any{selected}}}}
	}
	w := newWorld(t)
	more := configMap("more", "")
	fields := object{"deletionGroupsDuringUpdate": only("shop-plain-settings"), "deletionGroups": only("more")}
	item := w.item(w.config(chart("plain", more), nil, withoutRelease, fields))
	w.MustSucceed(item)
	empty := chart("plain", charts.Without("templates/settings.yaml"), charts.Without("templates/greeting.yaml"), more)
	w.mustDeploy(item, w.config(empty, nil, withoutRelease, fields))
	w.mustHold("more", "shop-plain-greeting")
	w.mustDeploy(item, w.config(chart("plain", more), nil, withoutRelease, fields))
	w.MustDelete(item)
	w.mustHold("shop-plain-greeting", "shop-plain-settings")
}

// TestNamespacesOfObjects: an object that names no namespace is in that of the release, if its kind has namespaces;
// lists are their items, and what renders to nothing is nothing.
// Rule (helm.md#the-helm-deployer): An object without a namespace is in the namespace of the release.
func TestNamespacesOfObjects(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		other := newWorld(w)
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
		notes := charts.File("templates/NOTES.txt", "{{ .Release.Name }}: no object")
		item := w.item(w.config(chart("plain", more, notes), nil))
		w.MustSucceed(item)
		w.mustHold("own", "shop-plain-greeting", "shop-plain-settings")
		w.at(other.Namespace).mustHold("elsewhere")
		w.DeleteAfter(clusterRoles, w.Namespace)
		w.MustGet(clusterRoles, w.Namespace)
		w.mustManage(item, "ClusterRole "+w.Namespace, "ConfigMap elsewhere", "ConfigMap own",
			"ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
		w.mustDoNothing(item)
		w.MustDelete(item)
		w.mustHold()
		w.at(other.Namespace).mustHold()
		if w.Get(clusterRoles, w.Namespace) != nil {
			w.Error("after the deletion there is still the cluster role")
		}
	})
}

// TestNamespaceOfTheRelease: it has to be there, unless it may be created, and stays then; one that is there is left as
// it is.
// Rule (helm.md#the-helm-deployer): `createNamespace` creates the namespace of a release, and it stays.
func TestNamespaceOfTheRelease(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		creates := func(namespace string, values object) object {
			return w.config(chart("plain"), values, object{"namespace": namespace, "createNamespace": true})
		}
		mustStay := func(namespace string) {
			w.Helper()
			o := w.MustGet(namespaces, namespace)
			labels := o.GetLabels()
			if o.GetDeletionTimestamp() != nil || labels["team"] != "roses" || labels[owner.Label] != "" {
				w.Errorf("expected the namespace with the label of others, but found %v", o)
			}
		}
		missing := w.Namespace + "-missing"
		item := w.item(w.config(chart("plain"), nil, object{"namespace": missing}))
		w.MustFail(w.call(item), nil, missing, "not found")
		w.mustDeploy(item, creates(missing, nil))
		in := w.at(missing)
		in.mustGreet("hello")
		w.Patch(namespaces, missing, `{"metadata":{"labels":{"team":"roses"}}}`)
		w.mustDeploy(item, creates(missing, object{"greeting": "two"}))
		in.mustGreet("two")
		w.MustDelete(item)
		in.mustGreet(nil)
		if o := w.MustGet(namespaces, missing); o.GetDeletionTimestamp() != nil || o.GetLabels()["team"] != "roses" {
			w.Errorf("expected the namespace to stay, with the label of others, but found %v", o)
		}

		old := w.Namespace + "-old"
		w.createNamespace(old, object{"team": "roses"})
		item = w.item(creates(old, nil))
		w.MustSucceed(item)
		mustStay(old)
		w.MustDelete(item)
		mustStay(old)
	})
}

// TestItemsOfOneNamespace: several items may create their namespace. The first one does, and they leave each other
// alone.
// Rule (helm.md#without-a-release): The namespace of `createNamespace` may be shared by several items.
func TestItemsOfOneNamespace(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		of := func(name string) *landscaper.DeployItem {
			return w.itemOf(name, w.config(chart("plain"), nil, object{
				"name": name, "namespace": w.Namespace + "-shared", "createNamespace": true,
			}))
		}
		one, two := of("one"), of("two")
		for range 2 {
			for _, item := range []*landscaper.DeployItem{one, two} {
				plugintest.NewJob(item)
				for _, m := range w.MustSucceed(item).Messages {
					if m.Event != nil && m.Event.Warning {
						w.Errorf("expected that the items do not meet, but found %+v", m.Event)
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
