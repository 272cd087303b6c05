package apply

import (
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// jsonObject draws an object, also with nulls.
func jsonObject() *rapid.Generator[map[string]any] {
	value := rapid.OneOf(jsonValue(2), rapid.Just[any](nil))
	return rapid.MapOfN(rapid.StringMatching(`[a-d]`), value, 0, 4)
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason                       string
		base, more, filled, overlaid fields
	}{
		"missing": {
			reason: "both take what is not there, even if it is empty, but for nulls",
			base:   fields{}, more: fields{"a": int64(1), "b": fields{}, "c": nil},
			filled: fields{"a": int64(1), "b": fields{}}, overlaid: fields{"a": int64(1), "b": fields{}},
		},
		"different": {
			reason: "fill leaves values, overlay takes those of the manifest; what it does not name stays",
			base:   fields{"m": fields{"a": "live", "b": "live"}}, more: fields{"m": fields{"a": "manifest", "c": "manifest"}},
			filled:   fields{"m": fields{"a": "live", "b": "live", "c": "manifest"}},
			overlaid: fields{"m": fields{"a": "manifest", "b": "live", "c": "manifest"}},
		},
		// Rule (manifest.md#update-strategies): `mergeOverwrite` replaces lists.
		"lists": {
			reason: "lists are values, not merged", base: fields{"l": []any{"live"}}, more: fields{"l": []any{"manifest"}},
			filled: fields{"l": []any{"live"}}, overlaid: fields{"l": []any{"manifest"}},
		},
		"empty in the object": {
			reason: "an empty value says nothing",
			base:   fields{"s": "", "l": []any{}, "m": fields{}, "n": nil}, more: fields{"s": "x", "l": []any{"x"}, "m": fields{"x": "x"}, "n": "x"},
			filled: fields{"s": "x", "l": []any{"x"}, "m": fields{"x": "x"}, "n": "x"}, overlaid: fields{"s": "x", "l": []any{"x"}, "m": fields{"x": "x"}, "n": "x"},
		},
		// Rule (manifest.md#update-strategies): `mergeOverwrite` overwrites nothing with an empty value.
		"empty in the manifest": {
			reason: "an empty value overwrites nothing",
			base:   fields{"s": "x", "l": []any{"x"}, "m": fields{"x": "x"}, "n": "x"}, more: fields{"s": "", "l": []any{}, "m": fields{}, "n": nil},
			filled: fields{"s": "x", "l": []any{"x"}, "m": fields{"x": "x"}, "n": "x"}, overlaid: fields{"s": "x", "l": []any{"x"}, "m": fields{"x": "x"}, "n": "x"},
		},
		// Rule (manifest.md#update-strategies): For `mergeOverwrite` `0` and `false` are not empty.
		"zero and false": {
			reason: "no replicas are a number of replicas",
			base:   fields{"scaled": int64(0), "on": true}, more: fields{"scaled": int64(3), "on": false},
			filled: fields{"scaled": int64(0), "on": true}, overlaid: fields{"scaled": int64(3), "on": false},
		},
		"other types": {
			reason: "a value of another type is a value",
			base:   fields{"a": "x", "b": fields{"x": "x"}}, more: fields{"a": fields{"y": "y"}, "b": "y"},
			filled: fields{"a": "x", "b": fields{"x": "x"}}, overlaid: fields{"a": fields{"y": "y"}, "b": "y"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fill(c.base, c.more); !reflect.DeepEqual(got, c.filled) {
				t.Errorf("%s: fill: expected %v, but found %v", c.reason, c.filled, got)
			}
			if got := overlay(c.base, c.more); !reflect.DeepEqual(got, c.overlaid) {
				t.Errorf("%s: overlay: expected %v, but found %v", c.reason, c.overlaid, got)
			}
		})
	}
}

// TestMergeProperties: merging again changes nothing, and arguments stay as they are.
func TestMergeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, more := jsonObject().Draw(t, "base"), jsonObject().Draw(t, "more")
		baseBefore, moreBefore := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(more)
		for name, merge := range map[string]func(a, b map[string]any) map[string]any{"fill": fill, "overlay": overlay, "patched": patched} {
			once := merge(base, more)
			if again := merge(once, more); !reflect.DeepEqual(once, again) {
				t.Fatalf("%s: once %v, twice %v", name, once, again)
			}
			scribble(once)
			if !reflect.DeepEqual(base, baseBefore) || !reflect.DeepEqual(more, moreBefore) {
				t.Fatalf("%s has changed its arguments, or its result shares something with them", name)
			}
		}
	})
}

// scribble changes everything in a value.
func scribble(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			scribble(inner)
			v[key] = "scribbled"
		}
	case []any:
		for i, inner := range v {
			scribble(inner)
			v[i] = "scribbled"
		}
	}
}

// TestPatched compares with another implementation of RFC 7386, that of the API server.
func TestPatched(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, patch := jsonObject().Draw(t, "base"), jsonObject().Draw(t, "patch")
		want, err := jsonpatch.MergePatch(marshal(t, base), marshal(t, patch))
		if err != nil {
			t.Fatal(err)
		}
		if got := marshal(t, patched(base, patch)); !jsonpatch.Equal(got, want) {
			t.Fatalf("%v with %v: expected %s, but found %s", base, patch, want, got)
		}
	})
}

// TestMergePatch: the patch leads where it should, and is empty only if there is nothing to do.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := jsonObject().Draw(t, "from"), jsonObject().Draw(t, "to")
		patch := mergePatch(from, to)
		// A merge patch cannot set a null: a field of null is one that is not there.
		want := patched(nil, to)
		if got := patched(from, patch); !reflect.DeepEqual(got, want) {
			t.Fatalf("from %v to %v: %v leads to %v", from, to, patch, got)
		}
		if len(mergePatch(want, to)) > 0 {
			t.Fatalf("there is nothing to change, but found %v", mergePatch(want, to))
		}
	})
}

func marshal(t *rapid.T, value any) []byte {
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return document
}
