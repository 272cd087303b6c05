package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
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
			w.Create(configMaps, w.configMap(name, theirs))
			of := func(data object) object {
				return with(configOf(entry(w.configMap(name, data), object{"force": c.force})), "updateStrategy", strategy)
			}
			item := w.itemOf(strategy, of(manifest))
			w.mustSucceed(item)
			if diff := cmp.Diff(c.first, w.data(name)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			w.SetConfig(item, of(object{"shared": "ours"}))
			w.mustSucceed(item)
			if diff := cmp.Diff(c.second, w.data(name)); diff != "" {
				t.Errorf("%s: with a shorter manifest: -want +got:\n%s", c.reason, diff)
			}
			before := w.MustGet(configMaps, name).GetResourceVersion()
			w.mustSucceed(item)
			if got := w.MustGet(configMaps, name).GetResourceVersion(); got != before {
				t.Errorf("%s: a job without a change wrote the object", c.reason)
			}
		})
	}
}

// job is one that is ready at once, as it is suspended.
func (w *world) job(annotations object) object {
	return object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": "job", "namespace": w.Namespace, "annotations": annotations},
		"spec": object{"suspend": true, "template": object{"spec": object{
			"restartPolicy": "Never", "containers": []any{object{"name": "main", "image": "busybox"}},
		}}},
	}
}

// TestFieldConflict: with server-side apply a field of another manager is an error that names both and the way out, once.
func TestFieldConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMaps, w.configMap("a", object{"colour": "red"}))
	of := func(force bool) object {
		return with(configOf(entry(w.configMap("a", object{"colour": "green"}), object{"force": force})), "updateStrategy", "apply")
	}
	item := w.item(of(false))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "manifests[0].manifest: apply ConfigMap "+w.Namespace+"/a",
		"FieldConflict", ".data.colour", `"somebody"`, "set force: true at manifests[0]")
	if diff := cmp.Diff(object{"colour": "red"}, w.data("a")); diff != "" {
		t.Errorf("after the conflict: -want +got:\n%s", diff)
	}
	w.SetConfig(item, of(true))
	w.mustSucceed(item)
	if diff := cmp.Diff(object{"colour": "green"}, w.data("a")); diff != "" {
		t.Errorf("with force: -want +got:\n%s", diff)
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
			w.SetConfig(item, c.config("green"))
			result := w.Plugin.Reconcile(t.Context(), w.CallOf(item))
			w.MustFail(result, plugintest.ConfigurationProblem, c.want)
			if diff := cmp.Diff(object{"colour": "red"}, w.data(name)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
