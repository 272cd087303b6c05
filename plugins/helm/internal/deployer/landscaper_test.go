package deployer_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// What Landscaper's deployer has deployed goes on here.

// leaveStatus gives the item a provider status as Landscaper writes it: without a release, and without uids for the
// objects of one.
func (w *world) leaveStatus(item *landscaper.DeployItem, resources ...object) {
	w.Helper()
	all := make([]any, 0, len(resources))
	for _, r := range resources {
		all = append(all, r)
	}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: w.Marshal(object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderStatusKind, "managedResources": all,
	})}
}

func (w *world) resource(policy, kind, name string) object {
	reference := object{"apiVersion": "v1", "kind": kind, "name": name}
	if kind != "Namespace" {
		reference["namespace"] = w.Namespace
	}
	return object{"policy": policy, "resource": reference}
}

// TestReleaseOfLandscaper: its items know nothing of a release but that they have made one. It has the labels of none.
// Rule (helm.md#releases): A release of Landscaper's deployer goes on.
func TestReleaseOfLandscaper(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*world, *landscaper.DeployItem) {
		t.Helper()
		w := newWorld(t)
		h := newHelmCLI(w)
		h.run("install", "shop", h.chartFile("plain"), "--set", "greeting=one")
		return w, w.item(w.config(chart("plain"), object{"greeting": "two"}))
	}
	t.Run("next job", func(t *testing.T) {
		t.Parallel()
		w, item := begin(t)
		w.leaveStatus(item, w.resource("", "ConfigMap", "shop-plain-greeting"), w.resource("", "ConfigMap", "gone-long-ago"))
		w.MustSucceed(item)
		w.mustGreet("two")
		w.mustHave("1 superseded", "2 deployed")
		w.mustManage(item, "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
		w.mustBeClean(item)
		w.MustDelete(item)
		w.mustHave()
	})
	// Rule (helm.md#the-helm-deployer): `pergola items diff` shows the repairs of the next revision.
	t.Run("preview of the repairs", func(t *testing.T) {
		t.Parallel()
		w, _ := begin(t)
		item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
		w.leaveStatus(item)
		w.mustChange(item)
		w.Patch(configMaps, "shop-plain-greeting", `{"data":{"greeting":"changed"}}`)
		w.Delete(configMaps, "shop-plain-settings")
		w.mustChange(item, "create ConfigMap %s/shop-plain-settings", "update ConfigMap %s/shop-plain-greeting")
		w.MustSucceed(item)
		w.mustGreet("one")
		w.mustChange(item)
	})
	for name, c := range map[string]struct{ recorded, crashes, stays bool }{
		"deletion": {recorded: true},
		"deletion after a crash in the first job here": {recorded: true, crashes: true},
		"crash in the first job of another item":       {crashes: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, item := begin(t)
			if c.recorded {
				w.leaveStatus(item)
			}
			if c.crashes {
				w.Disturb(plugintest.Reconcile, item, 1, beforeStorageWrite)
				w.mustHave("1 deployed")
			}
			w.MustDelete(item)
			if c.stays {
				w.mustHave("1 deployed")
				w.mustGreet("one")
			} else {
				w.mustHave()
				w.mustGreet(nil)
			}
		})
	}
}

// TestObjectsOfLandscaperAsTheChartNamesThem: a cluster-scoped object is noted with the namespace that it has in the
// chart, and one without a namespace there is in that of the release.
func TestObjectsOfLandscaperAsTheChartNamesThem(t *testing.T) {
	t.Parallel()
	const template = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" +
		"metadata: {name: {{ .Release.Namespace }}, namespace: {{ .Release.Namespace }}}\n"
	for name, deletion := range map[string]bool{"next job": false, "deletion": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain", charts.File("templates/role.yaml", template)), nil, withoutRelease))
			w.MustSucceed(item)
			role := w.resource("manage", "ClusterRole", w.Namespace)
			greeting := w.resource("manage", "ConfigMap", "shop-plain-greeting")
			role["resource"].(object)["apiVersion"] = clusterRoles.GroupVersion().String()
			delete(greeting["resource"].(object), "namespace")
			w.leaveStatus(item, role, greeting)
			plugintest.NewJob(item)
			greets := any("hello")
			if deletion {
				w.MustDelete(item)
				greets = nil
			} else {
				w.MustSucceed(item)
			}
			w.mustGreet(greets)
			if gone := w.Get(clusterRoles, w.Namespace) == nil; gone != deletion {
				t.Errorf("expected the ClusterRole to be gone: %t, but found %t", deletion, gone)
			}
		})
	}
}

// TestObjectsOfLandscaper: those without a release are known by their label and the provider status, and what the chart
// does not have any more goes.
// Rule (helm.md#without-a-release): Objects of Landscaper's deployer are taken over.
func TestObjectsOfLandscaper(t *testing.T) {
	t.Parallel()
	for name, job := range map[string]bool{"next job": true, "deletion": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, name := range []string{"shop-plain-greeting", "old"} {
				w.Create(configMaps, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{
					"name": name, "labels": object{v1alpha1.DeployItemLabel: "item"},
				}})
			}
			item := w.item(w.config(chart("plain"), nil, withoutRelease, object{"createNamespace": true}))
			w.leaveStatus(item, w.resource("manage", "ConfigMap", "shop-plain-greeting"),
				w.resource("manage", "ConfigMap", "old"), w.resource("keep", "Namespace", w.Namespace))
			if job {
				w.MustSucceed(item)
				w.mustGreet("hello")
				w.mustHold("shop-plain-greeting", "shop-plain-settings")
			}
			w.MustDelete(item)
			w.mustHold()
			if namespace := w.MustGet(namespaces, w.Namespace); namespace.GetDeletionTimestamp() != nil {
				t.Errorf("expected the namespace to stay, but found %v", namespace)
			}
		})
	}
}
