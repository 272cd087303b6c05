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
