package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestReadExports(t *testing.T) {
	t.Parallel()
	type values = map[string]any
	for _, c := range []struct {
		name, file string
		want       values
	}{
		// Rule (container.md#contract-with-the-image): Exports may be JSON.
		{"JSON", `{"a": {"b": [1, "c", null, true, 1.5]}}`, values{"a": values{"b": []any{int64(1), "c", nil, true, 1.5}}}},
		{"YAML", "a:\n  b: [1, c]\n# end\n", values{"a": values{"b": []any{int64(1), "c"}}}},
		{"dates are texts", "a: 2026-05-04", values{"a": "2026-05-04"}},
		{"pairs of Python", `{"a": "\ud83d\ude00"}`, values{"a": "😀"}},
		{"slashes of PHP", `{"a": "https:\/\/example.org"}`, values{"a": "https://example.org"}},
		{"byte order mark", "\ufeff{\"a\": 1}", values{"a": int64(1)}},
		// Rule (container.md#contract-with-the-image): Exports may have YAML aliases.
		{"aliases", "a: &a {b: c}\nd: *a\n", values{"a": values{"b": "c"}, "d": values{"b": "c"}}},
		{"no fields", "{}", values{}},
		{"nothing", "null", nil},
		// Rule (container.md#contract-with-the-image): Exports may be missing.
		{"empty", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, err := Exports([]byte(c.file))
			if diff := cmp.Diff(c.want, found); diff != "" || err != nil {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

// An error names the file by its variable, and does not quote it.
// Rule (container.md#contract-with-the-image): Exports must be an object without duplicates.
func TestReadExportsRefuses(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		`["hunter2"]`, "hunter2", "42424242", // no objects
		`{"hunter2": "a`, "a: hunter2\n b: c", // cut off, and with a typing error
		`{"hunter2": 1, "hunter2": 2}`, `{"a": {"hunter2": 1, "hunter2": 2}}`, "hunter2: 1\nhunter2: 2\n",
		"hunter2: \xff\xfe", "? {hunter2: 1}\n: 2", // no text, and no key
	} {
		found, err := Exports([]byte(file))
		if err == nil || len(found) > 0 || !strings.Contains(err.Error(), "EXPORTS_PATH") ||
			strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "42424242") {
			t.Errorf("%q: expected an error without values, but found %v and %v", file, found, err)
		}
	}
}

// TestReadExportsOfAnyJSON: what is an object for a library of JSON is one here, and the same one.
func TestReadExportsOfAnyJSON(t *testing.T) {
	t.Parallel()
	leaf := rapid.OneOf(rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
	list := rapid.SliceOfN(leaf, 0, 3).AsAny()
	values := rapid.MapOfN(rapid.String(), rapid.OneOf(leaf, list, rapid.MapOfN(rapid.String(), leaf, 0, 3).AsAny()), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		want := values.Draw(t, "values")
		indent := rapid.SampledFrom([]string{"", "  ", "\t"}).Draw(t, "indent")
		file, err := json.MarshalIndent(want, "", indent)
		if err != nil {
			t.Fatal(err)
		}
		found, err := Exports(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		again, err := json.MarshalIndent(found, "", indent)
		if err != nil || string(again) != string(file) {
			t.Fatalf("%s was read as %s (%v)", file, again, err)
		}
	})
}
