package apply

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestEstablished: what is of a kind is applied when its definition is usable, and not at all if its names are taken.
func TestEstablished(t *testing.T) {
	t.Parallel()
	definition := func(conditions ...any) *unstructured.Unstructured {
		return of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"status": fields{"conditions": conditions}})
	}
	accepted, refused := fields{"type": "NamesAccepted", "status": "True"}, fields{"type": "NamesAccepted", "status": "False"}
	for name, c := range map[string]struct {
		o      *unstructured.Unstructured
		usable bool
		reason string // of the error
	}{
		"new":         {o: definition()},
		"accepted":    {o: definition(accepted, fields{"type": "Established", "status": "False"})},
		"established": {o: definition(accepted, fields{"type": "Established", "status": "True"}), usable: true},
		"taken":       {o: definition(refused), reason: ReasonNamesTaken},
		"other":       {o: of("v1", "ConfigMap", nil), usable: true},
	} {
		missing, err := established(c.o)
		var problem *sdk.Error
		if errors.As(err, &problem) != (c.reason != "") || problem != nil && problem.Reason != c.reason {
			t.Errorf("%s: expected the reason %q, but found the error %v", name, c.reason, err)
		}
		if (missing == "" && err == nil) != c.usable {
			t.Errorf("%s: expected it to be usable: %t, but found %q and %v", name, c.usable, missing, err)
		}
	}
}

func TestAddDefined(t *testing.T) {
	t.Parallel()
	defined := map[schema.GroupVersionKind]target.Mapping{}
	addDefined(defined, of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": fields{
		"group": "example.org", "scope": "Namespaced", "names": fields{"kind": "Widget", "plural": "widgets"},
		"versions": []any{fields{"name": "v1", "served": true}, fields{"name": "v0", "served": false}, "nonsense"},
	}}))
	addDefined(defined, of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": "nonsense"}))
	addDefined(defined, of("v1", "ConfigMap", nil))
	want := map[schema.GroupVersionKind]target.Mapping{
		{Group: "example.org", Version: "v1", Kind: "Widget"}: {
			Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, Namespaced: true,
		},
	}
	if diff := cmp.Diff(want, defined); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
