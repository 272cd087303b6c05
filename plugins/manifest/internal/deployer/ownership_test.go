package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// noted is a provider status of Landscaper with one object.
func noted(version, entry string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(`{"apiVersion":"manifest.deployer.landscaper.gardener.cloud/` + version +
		`","kind":"ProviderStatus","managedResources":[` + entry + `]}`)}
}

// TestAdoption takes over what Landscaper has deployed, with and without its provider status, in each of its forms.
// Rule (manifest.md#managed-resources): Objects deployed for the item by Landscaper are taken over.
func TestAdoption(t *testing.T) {
	t.Parallel()
	const (
		flat   = `{"apiVersion":"v1","kind":"ConfigMap","name":"NAME","namespace":"NS"}`
		nested = `{"policy":"manage","resource":{"apiVersion":"v1","kind":"ConfigMap","name":"NAME","namespace":"NS",` +
			`"uid":"UID","resourceVersion":"VERSION"}}`
	)
	w := newWorld(t)
	for name, c := range map[string]struct{ reason, version, entry string }{
		"label":  {reason: "the label of Landscaper is enough"},
		"flat":   {"the older form of the provider status", "v1alpha1", flat},
		"nested": {"the newer form under the older version", "v1alpha1", nested},
		"newest": {"the newer form", "v1alpha2", nested},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			o := w.ConfigMap(name, object{"state": "old"})
			o["metadata"].(object)["labels"] = object{v1alpha2.DeployItemLabel: name}
			live := w.Create(configMaps, o)
			// What belongs to somebody else would be left alone.
			item := w.Item(v1alpha2.Type, name,
				configOf(entry(w.ConfigMap(name, object{"state": "new"}), object{"policy": "fallback"})))
			if c.entry != "" {
				item.Status.ProviderStatus = noted(c.version, strings.NewReplacer("NAME", name, "NS", w.Namespace,
					"UID", string(live.GetUID()), "VERSION", live.GetResourceVersion()).Replace(c.entry))
			}
			w.mustSucceed(item)
			adopted := w.MustGet(configMaps, name)
			if diff := cmp.Diff(any(object{"state": "new"}), adopted.Object["data"]); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if adopted.GetUID() != live.GetUID() || adopted.GetLabels()[owner.Label] != w.Namespace+"."+name {
				t.Errorf("%s: expected the same object with our label, but found %v", c.reason, adopted.Object["metadata"])
			}
			w.Requests.Take()
			w.mustSucceed(item)
			if got := w.Requests.Writes(); len(got) > 0 {
				t.Errorf("%s: a second job wrote %v", c.reason, got)
			}
			w.mustDelete(item)
			if w.Get(configMaps, name) != nil {
				t.Errorf("%s: expected the object to be deleted", c.reason)
			}
		})
	}
}

// TestAdoptionOfObjectsAsTheirManifestsNameThem: Landscaper notes a cluster-scoped object with the namespace of its
// manifest, and a namespaced one without any.
func TestAdoptionOfObjectsAsTheirManifestsNameThem(t *testing.T) {
	t.Parallel()
	for name, deletion := range map[string]bool{"next job": false, "deletion": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			role, homeless := w.clusterRole(), w.At("").ConfigMap(w.Namespace, nil)
			role["metadata"].(object)["namespace"] = w.Namespace
			item := w.item(config(role, homeless))
			w.mustSucceed(item)
			item.Status.ProviderStatus = noted("v1alpha2", strings.ReplaceAll(`{"policy":"manage","resource":{
					"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","name":"NS","namespace":"NS"}},
				{"policy":"manage","resource":{"apiVersion":"v1","kind":"ConfigMap","name":"NS"}}`, "NS", w.Namespace))
			if deletion {
				w.mustDelete(item)
			} else {
				w.mustSucceed(item)
			}
			configMap := w.At("default").Get(plugintest.ConfigMaps, w.Namespace)
			if role := w.Get(roles, w.Namespace); (role == nil) != deletion || (configMap == nil) != deletion {
				t.Errorf("expected both to be deleted: %t, but found %v, %v", deletion, role, configMap)
			}
		})
	}
}
