package deployer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

var withoutRelease = object{"helmDeployment": false}

// TestWithoutRelease takes a chart through its life whose objects are applied without a release.
func TestWithoutRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, withoutRelease))
	w.MustSucceed(item)
	w.mustGreet("one")
	w.mustHave()
	if got := w.Get(configMaps, "shop-plain-greeting").GetLabels()["helm.deployer.landscaper.gardener.cloud/deployitem"]; got != "item" {
		t.Errorf("expected Landscaper's label with the name of the item, but found %q", got)
	}

	w.Requests.Take()
	plugintest.NewJob(item)
	w.MustSucceed(item)
	if writes := w.Requests.Writes(); len(writes) > 0 {
		t.Errorf("expected no write without a change, but found %v", writes)
	}

	w.setConfig(item, w.config(chart("plain", charts.Without("templates/settings.yaml")), object{"greeting": "two"}, withoutRelease))
	w.MustSucceed(item)
	w.mustGreet("two")
	if diff := cmp.Diff([]string{"shop-plain-greeting"}, w.Names(configMaps, "")); diff != "" {
		t.Errorf("what the chart does not have any more is to go: -want +got:\n%s", diff)
	}
	w.MustDelete(item)
	if got := w.Names(configMaps, ""); len(got) > 0 {
		t.Errorf("after the deletion there is still %v", got)
	}
}

// TestTargetThatLeadsToAnotherCluster: what is on the cluster before is neither forgotten nor made anew elsewhere.
func TestTargetThatLeadsToAnotherCluster(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil, mode))
			w.MustSucceed(item)
			system, err := w.Objects(namespaces).Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
			if err != nil || w.status(item).Cluster != system.GetUID() {
				t.Fatalf("expected the cluster %s in the provider status, but found %q, %v", system.GetUID(), w.status(item).Cluster, err)
			}
			before := item.Status.ProviderStatus
			elsewhere := []byte(strings.ReplaceAll(string(before.Raw), string(system.GetUID()), "another"))
			item.Status.ProviderStatus = &runtime.RawExtension{Raw: elsewhere}
			w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "TargetChanged", "UID another there")
			w.MustFail(w.Do(plugintest.Delete, item), plugintest.ConfigurationProblem, "TargetChanged", "UID another there")
			if diff := cmp.Diff(string(elsewhere), string(item.Status.ProviderStatus.Raw)); diff != "" {
				t.Errorf("the provider status: -want +got:\n%s", diff)
			}
			item.Status.ProviderStatus = before
			w.MustDelete(item)
			w.mustGreet(nil)
		})
	}
}

// TestExports reads values of the chart and of an object.
// Rule (helm.md#readiness-and-exports): Exports are read from values of the chart and from objects.
func TestExports(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), object{"greeting": "one"}, mode, object{
				"exports": object{"exports": []any{
					object{"key": "own", "jsonPath": ".Values.greeting"},
					object{"key": "of.the.chart", "jsonPath": ".Values.settings.colour"},
					object{"key": "of.the.object", "jsonPath": ".data.copies", "fromResource": object{
						"apiVersion": "v1", "kind": "ConfigMap", "name": "shop-plain-greeting", "namespace": w.Namespace,
					}},
				}},
			}))
			result := w.MustSucceed(item)
			want := object{"of": object{"the": object{"chart": "blue", "object": "1"}}, "own": "one"}
			if diff := cmp.Diff(want, result.Succeeded.Exports); diff != "" {
				t.Errorf("the exports: -want +got:\n%s", diff)
			}
			w.MustDelete(item)
		})
	}
}

// TestChildren: objects that a HTTP hook has changed are deployed in the place of those of the chart.
// Rule (helm.md#http-hooks): The objects of an HTTP hook become part of the revision.
func TestChildren(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil, mode))
			children, err := w.Plugin.Render(t.Context(), w.CallOf(item))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for i, child := range children {
				names = append(names, child.Name)
				o := &unstructured.Unstructured{}
				if err := json.Unmarshal(child.Object, o); err != nil {
					t.Fatal(err)
				}
				o.SetAnnotations(map[string]string{"example.org/hooked": "yes"})
				if children[i].Object, err = json.Marshal(o); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings"}, names); diff != "" {
				t.Errorf("the children: -want +got:\n%s", diff)
			}
			w.Call.Children = children
			result := w.UntilDone(plugintest.Reconcile, item)
			if result.Succeeded == nil {
				t.Fatalf("expected success, but found: %s", result)
			}
			for _, name := range []string{"shop-plain-greeting", "shop-plain-settings"} {
				if got := w.Get(configMaps, name).GetAnnotations()["example.org/hooked"]; got != "yes" {
					t.Errorf("expected %s as the hook has it, but found the annotation %q", name, got)
				}
			}
			plugintest.NewJob(item)
			w.Call.Children = children[:1]
			w.MustFail(w.UntilDone(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "ConfigMap shop-plain-settings", "cannot be left out")
			w.MustDelete(item)
		})
	}
}

// TestDiff tells what a job would do, and changes nothing.
// Rule (helm.md#the-helm-deployer): `items diff` compares the deployed revision with the next one, and changes nothing.
func TestDiff(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), object{"greeting": "one"}, mode))
			w.mustChange(item, "create ConfigMap %s/shop-plain-greeting", "create ConfigMap %s/shop-plain-settings")
			w.mustGreet(nil)
			w.MustSucceed(item)
			w.mustChange(item)
			w.setConfig(item, w.config(chart("plain", charts.Without("templates/settings.yaml")), object{"greeting": "two"}, mode))
			w.mustChange(item, "delete ConfigMap %s/shop-plain-settings", "update ConfigMap %s/shop-plain-greeting")
			w.mustGreet("one")
			w.MustDelete(item)
		})
	}
}

func (w *world) mustChange(item *landscaper.DeployItem, want ...string) {
	w.Helper()
	changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, strings.ReplaceAll(string(c.Action)+" "+c.Object, w.Namespace, "%s"))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("the changes: -want +got:\n%s", diff)
	}
}

// TestModeIsKept: an item does not go from releases to objects or back.
// Rule (helm.md#without-a-release): `helmDeployment` of an existing item cannot be changed.
func TestModeIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	w.setConfig(item, w.config(chart("plain"), nil, withoutRelease))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "helmDeployment", "delete the deploy item")
	w.MustDelete(item)

	item = w.item(w.config(chart("plain"), nil, withoutRelease))
	w.MustSucceed(item)
	w.setConfig(item, w.config(chart("plain"), nil))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "helmDeployment", "delete the deploy item")
	w.MustDelete(item)
}

// TestOtherRelease: an item whose release gets another name leaves nothing of the one before. The difference says that
// it is uninstalled.
// Rule (helm.md#releases): With another name the old release is uninstalled first.
func TestOtherRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	w.setConfig(item, w.config(chart("plain"), nil, object{"name": "market"}))
	w.mustChange(item, "create ConfigMap %s/market-plain-greeting", "create ConfigMap %s/market-plain-settings",
		"delete ConfigMap %s/shop-plain-greeting", "delete ConfigMap %s/shop-plain-settings", "delete Release %s/shop")
	w.MustSucceed(item)
	w.mustHave()
	if diff := cmp.Diff([]string{"market-plain-greeting", "market-plain-settings"}, w.Names(configMaps, "")); diff != "" {
		t.Errorf("the objects: -want +got:\n%s", diff)
	}
	w.MustDelete(item)
}

// TestReleaseOfAnotherItem: two items do not fight over one release.
// Rule (helm.md#releases): An item does not take the release of another item.
func TestReleaseOfAnotherItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.itemOf("one", w.config(chart("plain"), object{"greeting": "one"}))
	w.MustSucceed(one)
	two := w.itemOf("two", w.config(chart("plain"), object{"greeting": "two"}))
	w.MustFail(w.Do(plugintest.Reconcile, two), plugintest.ConfigurationProblem, "shop", w.Namespace+".one")
	w.mustGreet("one")
	w.MustDelete(two)
	w.mustGreet("one")
	w.MustDelete(one)
}
