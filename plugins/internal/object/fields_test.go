package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	o := &unstructured.Unstructured{Object: fields{"status": fields{"conditions": []any{
		fields{"type": "Ready", "status": "True", "reason": "r", "message": "m"}, "nonsense",
		fields{"type": "Stalled", "status": "False", "message": int64(7)},
	}}}}
	want := []object.Condition{
		{Type: "Ready", Status: "True", Reason: "r", Message: "m"}, {Type: "Stalled", Status: "False"},
	}
	if diff := cmp.Diff(want, object.Conditions(o)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for kind, want := range map[string]bool{"Ready": true, "Stalled": false, "Other": false} {
		if _, got := object.TrueCondition(o, kind); got != want {
			t.Errorf("%s: expected %t, but found %t", kind, want, got)
		}
	}
}
