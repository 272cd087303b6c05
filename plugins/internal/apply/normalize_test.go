package apply_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestNoWriteWithoutChange is about objects that the API server stores differently from how their manifests are
// written: with defaults, other spellings of quantities, addresses of its own.
// Rule (manifest.md#update-strategies): With all strategies, an object in the desired state is not written.
func TestNoWriteWithoutChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := map[string]struct {
		resource schema.GroupVersionResource
		build    func(name string) fields
	}{
		"deployment": {deployments, func(name string) fields { return w.Deployment(name, 2) }},
		"service": {services, func(name string) fields {
			return fields{
				"apiVersion": "v1", "kind": "Service", "metadata": fields{"name": name, "namespace": w.Namespace},
				"spec": fields{"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": []any{fields{"port": int64(80)}}},
			}
		}},
		"job": {jobs, func(name string) fields {
			return fields{
				"apiVersion": "batch/v1", "kind": "Job", "metadata": fields{"name": name, "namespace": w.Namespace},
				"spec": fields{"template": fields{"spec": fields{
					"restartPolicy": "Never", "containers": []any{fields{"name": "main", "image": "image:1"}},
				}}},
			}
		}},
	}
	for _, s := range managedresource.UpdateStrategies() {
		for kind, o := range objects {
			name := kind + "-" + lower(s)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := w.in(t)
				m := manifest(o.build(name), strategy(s))
				w.mustRun(m)
				version := w.MustGet(o.resource, name).GetResourceVersion()
				w.Requests.Verbs()

				w.mustRun(m)
				w.mustRequest("GET")

				for key, e := range w.inventory {
					e.Applied = ""
					w.inventory[key] = e
				}
				w.mustRun(m)
				w.mustBeDry()
				w.mustRun(m)
				w.mustRequest("GET")

				w.beItem(w.by.Name)
				w.mustRun(m)
				w.mustBeDry("POST")
				if changes := w.diff(m); len(changes) > 0 {
					t.Errorf("expected no change, but found %s", changes[0].After)
				}
				if after := w.MustGet(o.resource, name).GetResourceVersion(); after != version {
					t.Errorf("the object was written: %s became %s", version, after)
				}

				changed := o.build(name)
				if err := unstructured.SetNestedField(changed, "yes", "metadata", "labels", "changed"); err != nil {
					t.Fatal(err)
				}
				w.Requests.Verbs()
				w.mustRun(manifest(changed, strategy(s)))
				verb := "PUT"
				if s == managedresource.UpdateStrategyPatch || s == managedresource.UpdateStrategyApply {
					verb = "PATCH"
				}
				w.mustRequest("GET", verb)
				if w.MustGet(o.resource, name).GetLabels()["changed"] != "yes" {
					t.Error("the change was not written")
				}
			})
		}
	}
}
