package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// TestFields: a field of another shape counts as missing.
func TestFields(t *testing.T) {
	t.Parallel()
	in := map[string]any{
		"text": "a", "number": int64(7), "maps": []any{map[string]any{"a": "b"}, "c", nil}, "map": map[string]any{},
	}
	for _, name := range []string{"text", "number", "maps", "map", "none"} {
		n, ok := object.Number(in, name)
		if text := object.Text(in, name); (text == "a") != (name == "text") || text != "" && text != "a" {
			t.Errorf("%s: found the text %q", name, text)
		}
		if ok != (name == "number") || n != object.Count(in, name) || ok && n != 7 {
			t.Errorf("%s: found the number %d, %t", name, n, ok)
		}
		if maps := object.Maps(in, name); len(maps) > 0 != (name == "maps") || len(maps) > 1 {
			t.Errorf("%s: found the maps %v", name, maps)
		}
		if deeper := object.Value(in, name, "a"); deeper != nil {
			t.Errorf("%s: found %v", name, deeper)
		}
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	seven := int64(7)
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		"nonsense",
		map[string]any{"type": "Ready", "status": "False", "reason": "No", "message": "because", "observedGeneration": seven},
		map[string]any{"type": "Ready", "status": "True"},
		map[string]any{"type": "Done", "status": "True", "reason": 7},
	}}}}
	want := []object.Condition{
		{Type: "Ready", Status: "False", Reason: "No", Message: "because", Generation: &seven},
		{Type: "Ready", Status: "True"}, {Type: "Done", Status: "True"},
	}
	if diff := cmp.Diff(want, object.Conditions(o)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c, ok := object.ConditionOf(o, "Ready"); !ok || c.Status != "False" {
		t.Errorf("expected the first condition, but found %v", c)
	}
	for kind, want := range map[string]bool{"Ready": false, "Done": true, "Other": false} {
		if _, ok := object.TrueCondition(o, kind); ok != want {
			t.Errorf("%s: expected %t, but found %t", kind, want, ok)
		}
	}
	for _, c := range []struct {
		condition object.Condition
		want      string
	}{
		{object.Condition{Reason: "No", Message: "because"}, "No: because"},
		{object.Condition{Reason: "No"}, "No"},
		{object.Condition{Message: "because"}, "because"},
		{object.Condition{Type: "Ready", Status: "Unknown"}, "its condition Ready is Unknown"},
	} {
		if got := c.condition.String(); got != c.want {
			t.Errorf("expected %q, but found %q", c.want, got)
		}
	}
}
