package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestStrategies brings an object that somebody has made to a manifest, then to another one, and then has nothing to do.
func TestStrategies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := object{"shared": "theirs", "extra": "theirs", "empty": "theirs"}
	manifest := object{"shared": "ours", "added": "ours", "empty": ""}
	for strategy, c := range map[string]struct {
		reason        string
		force         bool
		first, second object
	}{
		"update": {
			reason: "the manifest replaces the object",
			first:  manifest, second: object{"shared": "ours"},
		},
		"patch": {
			reason: "the same by a patch",
			first:  manifest, second: object{"shared": "ours"},
		},
		"merge": {
			reason: "only what the object lacks is taken from the manifest",
			first:  object{"shared": "theirs", "extra": "theirs", "empty": "theirs", "added": "ours"},
			second: object{"shared": "theirs", "extra": "theirs", "empty": "theirs", "added": "ours"},
		},
		"mergeOverwrite": {
			reason: "fields of the manifest that are not empty overwrite those of the object",
			first:  object{"shared": "ours", "extra": "theirs", "empty": "theirs", "added": "ours"},
			second: object{"shared": "ours", "extra": "theirs", "empty": "theirs", "added": "ours"},
		},
		"apply": {
			reason: "what the manifest names is ours, what it does not name any more goes, everything else is left to others",
			force:  true,
			first:  object{"shared": "ours", "extra": "theirs", "empty": "", "added": "ours"},
			second: object{"shared": "ours", "extra": "theirs"},
		},
	} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := strings.ToLower(strategy)
			w.create(configMaps, w.configMap(name, theirs))
			of := func(data object) object {
				return with(configOf(entry(w.configMap(name, data), object{"force": c.force})), "updateStrategy", strategy)
			}
			item := w.itemOf(strategy, of(manifest))
			w.mustSucceed(item)
			if diff := cmp.Diff(c.first, w.data(name)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			w.setConfig(item, of(object{"shared": "ours"}))
			w.mustSucceed(item)
			if diff := cmp.Diff(c.second, w.data(name)); diff != "" {
				t.Errorf("%s: with a shorter manifest: -want +got:\n%s", c.reason, diff)
			}
			before := w.mustGet(configMaps, name).GetResourceVersion()
			w.mustSucceed(item)
			if got := w.mustGet(configMaps, name).GetResourceVersion(); got != before {
				t.Errorf("%s: a job without a change wrote the object", c.reason)
			}
		})
	}
}

// TestNoWriteWithoutAChange: objects whose fields the API server fills in, keeps, or spells otherwise cost one write, whatever the strategy.
// Fields that it sets once and for all survive an update.
func TestNoWriteWithoutAChange(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite", "apply"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			of := func(annotations object) object {
				account := object{
					"apiVersion": "v1", "kind": "ServiceAccount",
					"metadata": object{"name": "account", "namespace": w.namespace, "annotations": annotations},
				}
				return with(with(config(w.service(annotations), w.job(annotations), account, w.deployment("web", "nginx")),
					"updateStrategy", strategy), "readinessChecks", object{"disableDefault": true})
			}
			item := w.item(of(nil))
			w.mustSucceed(item)
			address, _, _ := unstructured.NestedString(w.mustGet(services, "service").Object, "spec", "clusterIP")
			w.requests.take()
			w.mustSucceed(item)
			if got := w.writes(); len(got) > 0 {
				t.Errorf("a job without a change wrote: %v", got)
			}

			w.patch(serviceAccounts, "account", `{"secrets":[{"name":"token"}]}`)
			w.setConfig(item, of(object{"changed": "yes"}))
			w.mustSucceed(item)
			if got := w.mustGet(serviceAccounts, "account"); got.Object["secrets"] == nil || got.GetAnnotations()["changed"] != "yes" {
				t.Errorf("expected the ServiceAccount to be updated and its secrets to stay, but found %v", got.Object)
			}
			if w.mustGet(services, "service").GetAnnotations()["changed"] != "yes" || w.mustGet(jobs, "job").GetAnnotations()["changed"] != "yes" {
				t.Error("expected Service and Job to be updated")
			}
			if got, _, _ := unstructured.NestedString(w.mustGet(services, "service").Object, "spec", "clusterIP"); got != address || got == "" {
				t.Errorf("expected the address %q to stay, but found %q", address, got)
			}
			w.requests.take()
			w.mustSucceed(item)
			if got := w.writes(); len(got) > 0 {
				t.Errorf("a job without another change wrote: %v", got)
			}
		})
	}
}

func (w *world) service(annotations object) object {
	return object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "service", "namespace": w.namespace, "annotations": annotations},
		"spec": object{"selector": object{"app": "a"}, "ports": []any{object{"port": 80}}},
	}
}

// job is one that is ready at once, as it is suspended.
func (w *world) job(annotations object) object {
	return object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": "job", "namespace": w.namespace, "annotations": annotations},
		"spec": object{"suspend": true, "template": object{"spec": object{
			"restartPolicy": "Never", "containers": []any{object{"name": "main", "image": "busybox"}},
		}}},
	}
}

// TestFieldConflict: with server-side apply a field of another manager is an error that names both and the way out, once.
func TestFieldConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMaps, w.configMap("a", object{"colour": "red"}))
	of := func(force bool) object {
		return with(configOf(entry(w.configMap("a", object{"colour": "green"}), object{"force": force})), "updateStrategy", "apply")
	}
	item := w.item(of(false))
	w.mustFail(w.reconcile(item), configurationProblem, "manifests[0].manifest: apply ConfigMap "+w.namespace+"/a",
		"FieldConflict", ".data.colour", `"somebody"`, "set force: true at manifests[0]")
	if diff := cmp.Diff(object{"colour": "red"}, w.data("a")); diff != "" {
		t.Errorf("after the conflict: -want +got:\n%s", diff)
	}
	w.setConfig(item, of(true))
	w.mustSucceed(item)
	if diff := cmp.Diff(object{"colour": "green"}, w.data("a")); diff != "" {
		t.Errorf("with force: -want +got:\n%s", diff)
	}
}

// TestImmutableField: a change that the API server does not make is an error that says what to do; recreate does it.
func TestImmutableField(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"update", "patch", "mergeOverwrite", "apply"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			of := func(colour string, recreate bool) object {
				fixed := with(w.configMap("a", object{"colour": colour}), "immutable", true)
				return with(configOf(entry(fixed, object{"recreate": recreate})), "updateStrategy", strategy)
			}
			item := w.item(of("red", false))
			w.mustSucceed(item)
			first := w.mustGet(configMaps, "a")

			w.setConfig(item, of("green", false))
			w.mustFail(w.reconcile(item), configurationProblem, "manifests[0].manifest: apply ConfigMap "+w.namespace+"/a",
				"ImmutableField", "data: Forbidden", "set recreate: true at manifests[0]")
			if got := w.mustGet(configMaps, "a"); got.GetResourceVersion() != first.GetResourceVersion() {
				t.Error("the object was changed without recreate")
			}

			w.setConfig(item, of("green", true))
			w.mustSucceed(item)
			second := w.mustGet(configMaps, "a")
			if second.GetUID() == first.GetUID() {
				t.Error("expected a new object")
			}
			if diff := cmp.Diff(object{"colour": "green"}, second.Object["data"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			w.mustDelete(item)
			if w.get(configMaps, "a") != nil {
				t.Error("expected the new object to be managed, and deleted")
			}
		})
	}
}

// TestImmutableFieldWithoutAWayOut: a remedy that does not exist is not proposed.
func TestImmutableFieldWithoutAWayOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fixed := func(name, colour string) object {
		return with(w.configMap(name, object{"colour": colour}), "immutable", true)
	}
	bare := func(colour string) object {
		return object{
			"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
			"manifests": []any{fixed("bare", colour)},
		}
	}
	kept := func(colour string) object {
		return configOf(entry(fixed("kept", colour), object{"policy": "keep", "recreate": true}))
	}
	for name, c := range map[string]struct {
		reason string
		config func(colour string) object
		want   string
	}{
		"bare": {reason: "v1alpha1 has no such field", config: bare, want: "give it another name"},
		"kept": {reason: "what must not be deleted is not recreated", config: kept, want: "recreate has no effect with the policy keep"},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			item := w.itemOf(name, c.config("red"))
			w.mustSucceed(item)
			w.setConfig(item, c.config("green"))
			result := w.plugin.Reconcile(t.Context(), sdktest.Call{DeployItem: item, Target: w.target})
			w.mustFail(result, configurationProblem, c.want)
			if diff := cmp.Diff(object{"colour": "red"}, w.data(name)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
