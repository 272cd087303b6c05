package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPath(t *testing.T) {
	t.Parallel()
	in := map[string]any{
		"data":   map[string]any{"foo": "bar", "a.b": "dotted", "none": nil, "empty": ""},
		"list":   []any{map[string]any{"n": int64(1)}, map[string]any{"n": int64(2)}},
		"number": int64(9007199254740993),
	}
	for name, c := range map[string]struct {
		reason string
		path   string
		want   any
		found  bool
	}{
		"bare":           {reason: "a path needs no braces", path: ".data.foo", want: "bar", found: true},
		"braces":         {reason: "a path may have braces", path: "{.data.foo}", want: "bar", found: true},
		"no dot":         {reason: "nor a leading dot", path: "data.foo", want: "bar", found: true},
		"root":           {reason: "nor does it have to start at the root", path: "$.data.foo", want: "bar", found: true},
		"map":            {reason: "a value may be anything", path: ".data", want: in["data"], found: true},
		"dotted key":     {reason: "keys with dots are escaped as with kubectl", path: `.data.a\.b`, want: "dotted", found: true},
		"several":        {reason: "several values are a list", path: ".list[*].n", want: []any{int64(1), int64(2)}, found: true},
		"filter":         {reason: "filters work", path: ".list[?(@.n==2)].n", want: int64(2), found: true},
		"integer":        {reason: "integers keep their precision", path: ".number", want: int64(9007199254740993), found: true},
		"text":           {reason: "a path with text around it is a text", path: "n={.number}!", want: "n=9007199254740993!", found: true},
		"empty":          {reason: "an empty text is a value", path: ".data.empty", want: "", found: true},
		"null":           {reason: "null is no value", path: ".data.none"},
		"missing":        {reason: "a missing key is no value", path: ".data.bar"},
		"missing parent": {reason: "nor is one below a missing key", path: ".status.a.b"},
		"missing text":   {reason: "a text is incomplete without one of its values", path: "n={.nothing}"},
		"index":          {reason: "an index that suits no map may suit the object later", path: ".data[0]"},
		"out of range":   {reason: "a list may grow", path: ".list[5].n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := ParsePath(c.path)
			if err != nil {
				t.Fatal(err)
			}
			got, found := path.find(in)
			if found != c.found {
				t.Fatalf("%s: found is %t", c.reason, found)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
	for _, path := range []string{"", "  ", "{.a", ".list[?("} {
		if _, err := ParsePath(path); err == nil {
			t.Errorf("expected %q to be refused", path)
		}
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{{"a", "a", true}, {"a", "a.b", true}, {"a.b.c", "a", true}, {"a", "ab", false}, {"a.b", "a.c", false}} {
		if got := Overlap(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %t", c.a, c.b, got)
		}
	}
}
