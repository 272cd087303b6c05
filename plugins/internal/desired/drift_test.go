package desired

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reason, a, b, want string }{
		"none":    {"nothing differs", `{a: x}`, `{a: x}`, ``},
		"value":   {"the innermost field", `{a: {b: x, c: x}}`, `{a: {b: x, c: z}}`, `a.c`},
		"removed": {"one that is gone, not what was in it", `{a: {b: x}}`, `{}`, `a`},
		"added":   {"one that is new", `{}`, `{a: {b: x}}`, `a`},
		"element": {"an element of a list", `{l: [x, {a: x}]}`, `{l: [x, {a: z}]}`, `l[1].a`},
		"length":  {"which elements are new nobody knows", `{l: [x]}`, `{l: [z, x]}`, `l`},
		"type":    {"a value of another type", `{a: []}`, `{a: {}}`, `a`},
		"names": {
			"names with dots are quoted", `{metadata: {labels: {example.org/a: x}}}`, `{metadata: {labels: {}}}`,
			`metadata.labels["example.org/a"]`,
		},
	} {
		found := differences(plugintest.Fields(c.a), plugintest.Fields(c.b), "")
		if diff := cmp.Diff(c.want, strings.Join(found, " ")); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", name, c.reason, diff)
		}
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
	entry := managedresource.ManagedResourceStatus{Applied: item.Hash(item.Desired)}
	found := Repaired(item, entry, thing(fields{}), item.Desired)
	if found == nil || len(found.Fields) != maxFields || !slices.IsSorted(found.Fields) {
		t.Errorf("expected the first %d fields, but found %v", maxFields, found)
	}
}
