package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

func TestAddDefined(t *testing.T) {
	t.Parallel()
	defined := map[schema.GroupVersionKind]target.Mapping{}
	AddDefined(defined, of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": fields{
		"group": "example.org", "scope": "Namespaced", "names": fields{"kind": "Widget", "plural": "widgets"},
		"versions": []any{fields{"name": "v1", "served": true}, fields{"name": "v0", "served": false}, "nonsense"},
	}}))
	AddDefined(defined, of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": "nonsense"}))
	AddDefined(defined, of("v1", "ConfigMap", nil))
	want := map[schema.GroupVersionKind]target.Mapping{
		{Group: "example.org", Version: "v1", Kind: "Widget"}: {
			Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, Namespaced: true,
		},
	}
	if diff := cmp.Diff(want, defined); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
