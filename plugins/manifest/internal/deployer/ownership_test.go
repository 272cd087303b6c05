package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// TestAdoption takes over what Landscaper has deployed, with and without its provider status, in each of its forms.
// Rule (manifest.md#managed-resources): Objects deployed for the item by Landscaper are taken over.
func TestAdoption(t *testing.T) {
	t.Parallel()
	const group = "manifest.deployer.landscaper.gardener.cloud"
	w := newWorld(t)
	nested := func(o *unstructured.Unstructured) string {
		return `{"policy":"manage","resource":{"apiVersion":"v1","kind":"ConfigMap","name":"` + o.GetName() + `","namespace":"` + w.Namespace +
			`","uid":"` + string(o.GetUID()) + `","resourceVersion":"` + o.GetResourceVersion() + `"}}`
	}
	for name, c := range map[string]struct {
		reason string
		status func(o *unstructured.Unstructured) string
	}{
		"label": {reason: "the label of Landscaper is enough"},
		"flat": {reason: "the older form of the provider status", status: func(o *unstructured.Unstructured) string {
			return `{"apiVersion":"` + group + `/v1alpha1","kind":"ProviderStatus","managedResources":[` +
				`{"apiVersion":"v1","kind":"ConfigMap","name":"` + o.GetName() + `","namespace":"` + w.Namespace + `"}]}`
		}},
		"nested": {reason: "the newer form under the older version", status: func(o *unstructured.Unstructured) string {
			return `{"apiVersion":"` + group + `/v1alpha1","kind":"ProviderStatus","managedResources":[` + nested(o) + `]}`
		}},
		"newest": {reason: "the newer form", status: func(o *unstructured.Unstructured) string {
			return `{"apiVersion":"` + group + `/v1alpha2","kind":"ProviderStatus","managedResources":[` + nested(o) + `]}`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			o := w.configMap(name, object{"state": "old"})
			o["metadata"].(object)["labels"] = object{v1alpha2.DeployItemLabel: name}
			live := w.Create(configMaps, o)
			// What belongs to somebody else would be left alone.
			item := w.itemOf(name, configOf(entry(w.configMap(name, object{"state": "new"}), object{"policy": "fallback"})))
			if c.status != nil {
				item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(c.status(live))}
			}
			w.mustTell(w.mustSucceed(item))
			adopted := w.MustGet(configMaps, name)
			if diff := cmp.Diff(object{"state": "new"}, adopted.Object["data"]); diff != "" {
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
			role, homeless := w.clusterRole(), object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": w.Namespace}}
			role["metadata"].(object)["namespace"] = w.Namespace
			item := w.item(config(role, homeless))
			w.mustSucceed(item)
			item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{
				"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderStatus", "managedResources": [
					{"policy": "manage", "resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
						"name": "` + w.Namespace + `", "namespace": "` + w.Namespace + `"}},
					{"policy": "manage", "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "` + w.Namespace + `"}}]}`)}
			if deletion {
				w.mustDelete(item)
			} else {
				w.mustTell(w.mustSucceed(item))
			}
			_, err := w.Admin.Resource(configMaps).Namespace("default").Get(t.Context(), w.Namespace, metav1.GetOptions{})
			if (w.Get(roles, w.Namespace) == nil) != deletion || apierrors.IsNotFound(err) != deletion {
				t.Errorf("found the ClusterRole %v, and of the ConfigMap %v", w.Get(roles, w.Namespace), err)
			}
		})
	}
}
