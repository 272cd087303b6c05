package apply_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// The builders of objects.

type fields = map[string]any

func manifest(o fields, settings ...func(*desired.Manifest)) desired.Manifest {
	m := desired.Manifest{Manifest: object.Manifest{Object: &unstructured.Unstructured{Object: o}}}
	for _, set := range settings {
		set(&m)
	}
	return m
}

func strategy(s managedresource.UpdateStrategy) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.Strategy = s }
}

func policy(p managedresource.Policy) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.Policy = p }
}

func recreate(m *desired.Manifest) { m.Recreate = true }

func force(m *desired.Manifest) { m.Force = true }

func patchAfter(patch fields) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.PatchAfterDeployment = patch }
}

func (w *world) configMap(name string, data fields) fields {
	return fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": name, "namespace": w.Namespace}, "data": data}
}

func (w *world) deployment(name string, replicas int64) fields {
	return fields{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"name": name, "namespace": w.Namespace},
		"spec": fields{
			"replicas": replicas, "selector": fields{"matchLabels": fields{"app": name}},
			"template": fields{
				"metadata": fields{"labels": fields{"app": name}},
				"spec": fields{"containers": []any{fields{
					"name": "main", "image": "image:1", "resources": fields{"requests": fields{"cpu": "1000m", "memory": "1024Mi"}},
				}}},
			},
		},
	}
}

// dataOf returns the data of a ConfigMap.
func dataOf(o *unstructured.Unstructured) fields {
	data, _, _ := unstructured.NestedMap(o.Object, "data")
	return data
}

func mustJSON(t testing.TB, document []byte) fields {
	t.Helper()
	var out fields
	if err := json.Unmarshal(document, &out); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	return out
}

func lower[T ~string](text T) string { return strings.ToLower(string(text)) }

func copyOf(o fields) fields { return (&unstructured.Unstructured{Object: o}).DeepCopy().Object }

func nestedMap(o *unstructured.Unstructured, path ...string) (fields, bool, error) {
	return unstructured.NestedMap(o.Object, path...)
}
