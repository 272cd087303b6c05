package objects

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// jsonObject draws an object, also with nulls.
func jsonObject() *rapid.Generator[map[string]any] {
	value := rapid.OneOf(plugintest.JSON(2), rapid.Just[any](nil))
	return rapid.MapOfN(rapid.StringMatching(`[a-d]`), value, 0, 4)
}

func TestMerge(t *testing.T) {
	t.Parallel()
	const full = `{s: x, l: [x], m: {x: x}, n: x}`
	for name, c := range map[string]struct{ reason, base, more, filled, overlaid string }{
		"missing": {
			"both take what is not there, even if it is empty, but for nulls",
			`{}`, `{a: 1, b: {}, c: null}`, `{a: 1, b: {}}`, `{a: 1, b: {}}`,
		},
		"different": {
			"fill leaves values, overlay takes those of the manifest; what it does not name stays",
			`{m: {a: live, b: live}}`, `{m: {a: manifest, c: manifest}}`,
			`{m: {a: live, b: live, c: manifest}}`, `{m: {a: manifest, b: live, c: manifest}}`,
		},
		// Rule (manifest.md#update-strategies): `mergeOverwrite` replaces lists.
		"lists": {"lists are values, not merged", `{l: [live]}`, `{l: [manifest]}`, `{l: [live]}`, `{l: [manifest]}`},
		"empty in the object": {
			"an empty value says nothing", `{s: "", l: [], m: {}, n: null}`, full, full, full,
		},
		// Rule (manifest.md#update-strategies): `mergeOverwrite` overwrites nothing with an empty value.
		"empty in the manifest": {
			"an empty value overwrites nothing", full, `{s: "", l: [], m: {}, n: null}`, full, full,
		},
		// Rule (manifest.md#update-strategies): For `mergeOverwrite` `0` and `false` are not empty.
		"zero and false": {
			"no replicas are a number of replicas", `{scaled: 0, "on": true}`, `{scaled: 3, "on": false}`,
			`{scaled: 0, "on": true}`, `{scaled: 3, "on": false}`,
		},
		"other types": {
			"a value of another type is a value", `{a: x, b: {x: x}}`, `{a: {z: z}, b: z}`,
			`{a: x, b: {x: x}}`, `{a: {z: z}, b: z}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, more := plugintest.Fields(c.base), plugintest.Fields(c.more)
			if diff := cmp.Diff(plugintest.Fields(c.filled), Fill(base, more)); diff != "" {
				t.Errorf("%s: fill: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(plugintest.Fields(c.overlaid), Overlay(base, more)); diff != "" {
				t.Errorf("%s: overlay: -want +got:\n%s", c.reason, diff)
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
		for name, merge := range map[string]func(a, b map[string]any) map[string]any{
			"fill": Fill, "overlay": Overlay, "patched": Patched,
		} {
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
		if got := marshal(t, Patched(base, patch)); !jsonpatch.Equal(got, want) {
			t.Fatalf("%v with %v: expected %s, but found %s", base, patch, want, got)
		}
	})
}

// TestMergePatch: the patch leads where it should, and is empty only if there is nothing to do.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := jsonObject().Draw(t, "from"), jsonObject().Draw(t, "to")
		patch := MergePatch(from, to)
		// A merge patch cannot set a null: a field of null is one that is not there.
		want := Patched(nil, to)
		if got := Patched(from, patch); !reflect.DeepEqual(got, want) {
			t.Fatalf("from %v to %v: %v leads to %v", from, to, patch, got)
		}
		if len(MergePatch(want, to)) > 0 {
			t.Fatalf("there is nothing to change, but found %v", MergePatch(want, to))
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

// TestChanges: a patch changes fields if they are others after it, apart from maps that it leaves empty.
func TestChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, patch := jsonObject().Draw(t, "base"), jsonObject().Draw(t, "patch")
		base = Patched(nil, base) // An object on a target has no nulls.
		before, after := WithoutEmptied(Patched(nil, base), patch), WithoutEmptied(Patched(base, patch), patch)
		if got, want := Changes(base, patch), !reflect.DeepEqual(before, after); got != want {
			t.Fatalf("%v with %v: expected %t, but found %t; after it is %v", base, patch, want, got, after)
		}
		if Changes(Patched(base, patch), patch) {
			t.Fatalf("%v with %v: there is still something to change", base, patch)
		}
	})
}

// documents draws maps of the same few names. Fields with the name "map" are maps, as those that patches of one object
// agree on are.
func documents(depth int, withNull bool) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		document := map[string]any{}
		leaves := []any{"x", int64(1), true, []any{"x"}}
		if withNull {
			leaves = append(leaves, nil)
		}
		names := rapid.SampledFrom([]string{"a", "b", "map"})
		for _, name := range rapid.SliceOfDistinct(names, rapid.ID).Draw(t, "names") {
			if name != "map" {
				document[name] = rapid.SampledFrom(leaves).Draw(t, name)
			} else if depth > 0 {
				document[name] = documents(depth-1, withNull).Draw(t, name)
			}
		}
		return document
	})
}

// TestCompose: two patches in one do what both do one after the other.
func TestCompose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live := documents(3, false).Draw(t, "live")
		first, second := documents(3, true).Draw(t, "first"), documents(3, true).Draw(t, "second")
		merged := func(document []byte, patches ...map[string]any) []byte {
			for _, patch := range patches {
				var err error
				if document, err = jsonpatch.MergePatch(document, marshal(t, patch)); err != nil {
					t.Fatal(err)
				}
			}
			return document
		}
		want, got := merged(marshal(t, live), first, second), merged(marshal(t, live), Compose(first, second))
		if !jsonpatch.Equal(want, got) {
			t.Errorf("two patches in one: expected %s, but found %s", want, got)
		}
	})
}
