package export_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// exported returns an export of a ConfigMap's value.
func exported(key string, change ...func(*managedresource.Export)) managedresource.Export {
	e := managedresource.Export{
		Key: key, JSONPath: ".data.a",
		FromResource: &managedresource.TypedObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", Namespace: "n"},
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func TestParse(t *testing.T) {
	t.Parallel()
	target := "other"
	values, problems := export.Parse(&managedresource.Exports{DefaultTimeout: "5m", Exports: []managedresource.Export{
		exported("a.b"),
		exported("a.c", func(e *managedresource.Export) {
			e.TargetName = &target
			e.FromObjectReference = &managedresource.FromObjectReference{APIVersion: "v1", Kind: "Secret", JSONPath: "data.x"}
		}),
	}}, field.NewPath("exports", "exports"))
	if len(problems) > 0 || len(values) != 2 {
		t.Fatalf("expected two values, but found %v and %v", values, problems)
	}
	if v := values[0]; v.Key != "a.b" || v.Path.String() != ".data.a" || v.From.Name != "a" || v.FromObject != nil ||
		v.TargetName != "" {
		t.Errorf("expected a value of an object, but found %v", v)
	}
	if v := values[1]; v.TargetName != "other" || v.FromObject == nil || v.FromObject.Kind != "Secret" ||
		v.FromObject.Path.String() != "data.x" {
		t.Errorf("expected a value of a referenced object on another Target, but found %v", v)
	}
	if values, problems := export.Parse(nil, field.NewPath("exports")); values != nil || problems != nil {
		t.Errorf("no exports are no values, but found %v and %v", values, problems)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		exports managedresource.Exports
		want    []string
	}{
		"all at once": {
			reason:  "all problems are told at once",
			exports: managedresource.Exports{DefaultTimeout: "soon", Exports: []managedresource.Export{{}, exported("a..b")}},
			want: []string{
				"exports.defaultTimeout", "exports.exports[0].fromResource", "exports.exports[0].jsonPath",
				"exports.exports[0].key", "exports.exports[1].key",
			},
		},
		"object": {
			reason: "an object needs a name and a kind",
			exports: managedresource.Exports{Exports: []managedresource.Export{exported("a", func(e *managedresource.Export) {
				e.FromResource = &managedresource.TypedObjectReference{}
			})}},
			want: []string{
				"exports.exports[0].fromResource.apiVersion", "exports.exports[0].fromResource.kind",
				"exports.exports[0].fromResource.name",
			},
		},
		"reference": {
			reason: "the other object needs a kind and a path",
			exports: managedresource.Exports{Exports: []managedresource.Export{exported("a", func(e *managedresource.Export) {
				e.FromObjectReference = &managedresource.FromObjectReference{}
			})}},
			want: []string{
				"exports.exports[0].fromObjectRef.apiVersion", "exports.exports[0].fromObjectRef.jsonPath",
				"exports.exports[0].fromObjectRef.kind",
			},
		},
		"equal keys": {
			reason:  "one would be lost",
			exports: managedresource.Exports{Exports: []managedresource.Export{exported("a"), exported("a")}},
			want:    []string{"exports.exports[1].key"},
		},
		"key on the way": {
			reason: "a value is no map",
			exports: managedresource.Exports{Exports: []managedresource.Export{
				exported("a.b.c"), exported("ab"), exported("a"),
			}},
			want: []string{"exports.exports[2].key"},
		},
		"the other way": {
			reason:  "in either order",
			exports: managedresource.Exports{Exports: []managedresource.Export{exported("a"), exported("a.b")}},
			want:    []string{"exports.exports[1].key"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, problems := export.Parse(&c.exports, field.NewPath("exports", "exports"))
			var got []string
			for _, p := range problems {
				got = append(got, p.Field)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if values != nil {
				t.Errorf("expected no values, but found %v", values)
			}
		})
	}
}
