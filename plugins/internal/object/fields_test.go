package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestFields: a field of another shape counts as missing.
func TestFields(t *testing.T) {
	t.Parallel()
	in := plugintest.Fields(`{text: a, number: 7, maps: [{a: b}, c, null], map: {}}`)
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
	o := plugintest.Object(`{status: {conditions: [nonsense,
		{type: Ready, status: "False", reason: "No", message: because, observedGeneration: 7},
		{type: Ready, status: "True"}, {type: Done, status: "True", reason: 7}]}}`)
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
	for want, c := range map[string]object.Condition{
		"No: because": {Reason: "No", Message: "because"}, "No": {Reason: "No"}, "because": {Message: "because"},
		"its condition Ready is Unknown": {Type: "Ready", Status: "Unknown"},
	} {
		if got := c.String(); got != want {
			t.Errorf("expected %q, but found %q", want, got)
		}
	}
}
