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

func TestConditions(t *testing.T) {
	t.Parallel()
	o := of("v1", "A", fields{"status": fields{"conditions": []any{
		fields{"type": "Ready", "status": "True", "reason": "r", "message": "m"}, "nonsense",
		fields{"type": "Stalled", "status": "False", "message": int64(7)},
	}}})
	want := []Condition{{"Ready", "True", "r", "m"}, {Type: "Stalled", Status: "False"}}
	if diff := cmp.Diff(want, Conditions(o)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !HasCondition(o, "Ready") || HasCondition(o, "Stalled") || HasCondition(of("v1", "A", nil), "Ready") {
		t.Error("only a condition with the status True counts")
	}
}
