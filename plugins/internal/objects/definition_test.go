package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

func TestDefined(t *testing.T) {
	t.Parallel()
	got := Defined(of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": fields{
		"group": "example.org", "scope": "Namespaced", "names": fields{"kind": "Widget", "plural": "widgets"},
		"versions": []any{fields{"name": "v1", "served": true}, fields{"name": "v0", "served": false}, "nonsense"},
	}}))
	want := []Kind{{
		schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"},
		target.Mapping{
			Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, Namespaced: true,
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, o := range []*unstructured.Unstructured{
		of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": "nonsense"}), of("v1", "ConfigMap", nil),
	} {
		if got := Defined(o); got != nil {
			t.Errorf("expected no kind of %v, but found %v", o, got)
		}
	}
}
