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
	for name, c := range map[string]struct {
		reason, file string
		want         map[string]any
	}{
		// Rule (container.md#contract-with-the-image): Exports may be JSON.
		"JSON": {
			reason: "images of Landscaper's users write it", file: `{"a": {"b": [1, "c", null, true, 1.5]}}`,
			want: map[string]any{"a": map[string]any{"b": []any{int64(1), "c", nil, true, 1.5}}},
		},
		"YAML": {
			reason: "so they do with this", file: "a:\n  b: [1, c]\n# end\n",
			want: map[string]any{"a": map[string]any{"b": []any{int64(1), "c"}}},
		},
		"dates": {
			reason: "what looks like one stays a text", file: "a: 2026-05-04", want: map[string]any{"a": "2026-05-04"},
		},
		"pairs": {
			reason: "Python writes an emoji like this", file: `{"a": "\ud83d\ude00"}`, want: map[string]any{"a": "😀"},
		},
		"slashes": {
			reason: "PHP writes them like this", file: `{"a": "https:\/\/example.org"}`,
			want: map[string]any{"a": "https://example.org"},
		},
		"byte order mark": {reason: "editors put it there", file: "\ufeff{\"a\": 1}", want: map[string]any{"a": int64(1)}},
		// Rule (container.md#contract-with-the-image): Exports may have YAML aliases.
		"aliases": {
			reason: "an image may repeat something", file: "a: &a {b: c}\nd: *a\n",
			want: map[string]any{"a": map[string]any{"b": "c"}, "d": map[string]any{"b": "c"}},
		},
		"no fields": {reason: "an image may export nothing", file: "{}", want: map[string]any{}},
		"nothing":   {reason: "null is nothing", file: "null"},
		// Rule (container.md#contract-with-the-image): Exports may be missing.
		"empty": {reason: "an empty file is none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := Exports([]byte(c.file))
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// Rule (container.md#contract-with-the-image): Exports must be an object without duplicates.
func TestReadExportsRefuses(t *testing.T) {
	t.Parallel()
	for reason, file := range map[string]string{
		"a list has no names": `["hunter2"]`, "a text is no object": "hunter2", "nor is a number": "42424242", "JSON " +
			"that is cut off": `{"hunter2": "a`,
		"YAML with a typing error": "a: hunter2\n b: c", "one of two values would be lost": `{"hunter2": 1, "hunter2": 2}`,
		"nor may one be lost in a part": `{"a": {"hunter2": 1, "hunter2": 2}}`, "nor in YAML": "hunter2: 1\nhunter2: 2\n",
		"bytes that are no text": "hunter2: \xff\xfe", "a key that is none": "? {hunter2: 1}\n: 2",
	} {
		found, err := Exports([]byte(file))
		switch {
		case err == nil || len(found) > 0:
			t.Errorf("%s: expected an error, but found %v", reason, found)
		case strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "42424242"):
			t.Errorf("%s: the error quotes the file: %v", reason, err)
		case !strings.Contains(err.Error(), "EXPORTS_PATH"):
			t.Errorf("%s: expected the error to name the file by its variable, but found %v", reason, err)
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
