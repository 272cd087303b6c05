package desired

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		a, b   any
		want   []string
	}{
		"none":    {reason: "nothing differs", a: fields{"a": "x"}, b: fields{"a": "x"}},
		"value":   {reason: "the innermost field", a: fields{"a": fields{"b": "x", "c": "x"}}, b: fields{"a": fields{"b": "x", "c": "y"}}, want: []string{"a.c"}},
		"removed": {reason: "one that is gone, not what was in it", a: fields{"a": fields{"b": "x"}}, b: fields{}, want: []string{"a"}},
		"added":   {reason: "one that is new", a: fields{}, b: fields{"a": fields{"b": "x"}}, want: []string{"a"}},
		"element": {reason: "an element of a list", a: fields{"l": []any{"x", fields{"a": "x"}}}, b: fields{"l": []any{"x", fields{"a": "y"}}}, want: []string{"l[1].a"}},
		"length":  {reason: "which elements are new nobody knows", a: fields{"l": []any{"x"}}, b: fields{"l": []any{"y", "x"}}, want: []string{"l"}},
		"type":    {reason: "a value of another type", a: fields{"a": []any{}}, b: fields{"a": fields{}}, want: []string{"a"}},
		"names": {
			reason: "names with dots are quoted", a: fields{"metadata": fields{"labels": fields{"example.org/a": "x"}}},
			b: fields{"metadata": fields{"labels": fields{}}}, want: []string{`metadata.labels["example.org/a"]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, differences(c.a, c.b, "")); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// TestDifferencesAreComplete: there are none exactly for equal values, and they are the same in both directions.
func TestDifferencesAreComplete(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := plugintest.JSON(3).Draw(t, "a"), plugintest.JSON(3).Draw(t, "b")
		there, back := differences(a, b, "x"), differences(b, a, "x")
		slices.Sort(there)
		slices.Sort(back)
		if !slices.Equal(there, back) {
			t.Fatalf("%v there, but %v back", there, back)
		}
		if (len(there) == 0) != (objects.Digest(a) == objects.Digest(b)) {
			t.Fatalf("%v and %v differ in %v", a, b, there)
		}
		if found := differences(a, a, "x"); len(found) > 0 {
			t.Fatalf("a value differs from itself in %v", found)
		}
	})
}

func TestDriftIsBounded(t *testing.T) {
	t.Parallel()
	data := fields{}
	for n := range 100 {
		data[fmt.Sprintf("key-%02d", n)] = "x"
	}
	item := itemOf(thing(data))
	found := Repaired(item, managedresource.ManagedResourceStatus{Applied: item.Hash(item.Desired)}, thing(fields{}), item.Desired)
	if found == nil || len(found.Fields) != maxFields || !slices.IsSorted(found.Fields) {
		t.Errorf("expected the first %d fields, but found %v", maxFields, found)
	}
}
