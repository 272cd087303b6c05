package desired

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func thing(spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}}
}

// itemOf returns an item with default settings.
func itemOf(o *unstructured.Unstructured) *Object {
	return New(Manifest{Manifest: object.Manifest{Object: o}}, target.Mapping{}, false, owner.Owner{Namespace: "ns", Name: "item"})
}

// grow adds fields that a manifest with the same content does not name, as defaulting does.
func grow(t *rapid.T, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			out[key] = grow(t, inner)
		}
		if rapid.Bool().Draw(t, "grow") {
			out["default"] = plugintest.JSON(1).Draw(t, "default")
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, inner := range v {
			out = append(out, grow(t, inner))
		}
		return out
	default:
		return v
	}
}

// change returns a copy with the n-th scalar changed, if there are so many; n is counted down to zero and below.
func change(value any, n *int) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, key := range []string{"a", "b", "c", "d"} {
			if inner, ok := v[key]; ok {
				out[key] = change(inner, n)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, inner := range v {
			out = append(out, change(inner, n))
		}
		return out
	default:
		*n--
		if *n == 0 {
			return "somebody else's value"
		}
		return v
	}
}

// TestHash checks the property that the package comment promises: what others add beside the fields of the manifest
// makes no difference, what they change in them does, and so does every change of the manifest.
// Rule (manifest.md#drift): Fields not in the manifest are not compared.
func TestHash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := plugintest.JSON(3).Draw(t, "spec")
		item := itemOf(thing(spec))
		written := item.Hash(item.Desired)

		grown := item.Desired.DeepCopy()
		grown.Object["spec"] = grow(t, spec)
		grown.Object["status"] = plugintest.JSON(2).Draw(t, "status")
		grown.SetResourceVersion("7")
		if item.Hash(grown) != written {
			t.Fatalf("fields that the manifest does not name make a difference: %v and %v", spec, grown.Object["spec"])
		}

		n := rapid.IntRange(1, 5).Draw(t, "n")
		left := n
		drifted := item.Desired.DeepCopy()
		drifted.Object["spec"] = change(spec, &left)
		if left <= 0 && item.Hash(drifted) == written {
			t.Fatalf("a changed value makes no difference: %v and %v", spec, drifted.Object["spec"])
		}

		other := itemOf(thing(plugintest.JSON(3).Draw(t, "other")))
		if objects.Digest(other.Desired.Object["spec"]) != objects.Digest(spec) && !other.Stale(written) {
			t.Fatalf("another manifest is taken for the one that was written")
		}
		if item.Stale(written) {
			t.Fatal("the manifest that was written is taken for another one")
		}
	})
}

func TestHashSeesListsGrow(t *testing.T) {
	t.Parallel()
	item := itemOf(thing([]any{"a"}))
	longer := item.Desired.DeepCopy()
	longer.Object["spec"] = []any{"a", "b"}
	if item.Hash(item.Desired) == item.Hash(longer) {
		t.Error("one more element makes no difference")
	}
}

// TestDigestOfManifest says which settings make an object be written again.
func TestDigestOfManifest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		change func(*Manifest)
		stale  bool
	}{
		"nothing":     {reason: "the same settings", change: func(*Manifest) {}},
		"policy":      {reason: "a policy says whether, not what to write", change: func(m *Manifest) { m.Policy = managedresource.PolicyKeep }},
		"default":     {reason: "the default strategy is update", change: func(m *Manifest) { m.Strategy = managedresource.UpdateStrategyUpdate }},
		"recreate":    {reason: "nothing is written other than without it", change: func(m *Manifest) { m.Recreate, m.Force = true, true }},
		"strategy":    {reason: "update removes what merge has left", change: func(m *Manifest) { m.Strategy = managedresource.UpdateStrategyMerge }, stale: true},
		"annotations": {reason: "those of before stay as they are", change: func(m *Manifest) { m.AnnotateBeforeCreate = map[string]string{"a": "other"} }},
		"fewer annotations": {
			reason: "an annotation that is no longer kept goes", change: func(m *Manifest) { m.AnnotateBeforeCreate = nil }, stale: true,
		},
		"patch": {
			reason: "fields of the patch before have to go", stale: true,
			change: func(m *Manifest) { m.PatchAfterDeployment = map[string]any{"spec": "patched"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Manifest{Manifest: object.Manifest{Object: thing("x")}, AnnotateBeforeCreate: map[string]string{"a": "b"}}
			before := New(m, target.Mapping{}, false, owner.Owner{})
			c.change(&m)
			after := New(m, target.Mapping{}, false, owner.Owner{})
			if got := after.Stale(before.Hash(before.Desired)); got != c.stale {
				t.Errorf("%s: expected that the object is to be written: %t, but found %t", c.reason, c.stale, got)
			}
		})
	}
}

// TestMapOfOthers: the API server leaves out a map that has become empty. When somebody else puts a field into it, that
// is no change of what the manifest names.
func TestMapOfOthers(t *testing.T) {
	t.Parallel()
	item := itemOf(thing(map[string]any{"data": map[string]any{"a": ""}, "empty": map[string]any{}}))
	without := item.Hash(thing(map[string]any{"empty": map[string]any{}}))
	if got := item.Hash(thing(map[string]any{"data": map[string]any{"b": "theirs"}, "empty": map[string]any{}})); got != without {
		t.Error("a field of others in a map makes a difference")
	}
	if got := item.Hash(thing(map[string]any{"data": map[string]any{"a": ""}, "empty": map[string]any{}})); got == without {
		t.Error("a named field makes none")
	}
	if got := item.Hash(thing(map[string]any{})); got == without {
		t.Error("a map that the manifest wants empty makes none")
	}
}

// TestDocumentNamed: what a repair changes is shown without what others and the API server add to the object.
// Rule (SECURITY.md#secrets): A difference before a repair of a release's object shows the fields of its manifest
// alone.
func TestDocumentNamed(t *testing.T) {
	t.Parallel()
	manifest := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing", "metadata": map[string]any{"name": "a", "labels": map[string]any{"a": "1"}}, "spec": map[string]any{"size": int64(1)},
	}}
	live := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing", "metadata": map[string]any{
			"name": "a", "labels": map[string]any{"a": "2", "b": "1"}, "managedFields": []any{map[string]any{"manager": "x"}},
		},
		"spec": map[string]any{"size": int64(2), "default": true}, "status": map[string]any{"ready": true},
	}}
	item := &Object{Desired: manifest}
	if got, want := string(item.DocumentNamed(live)), `{"kind":"Thing","metadata":{"labels":{"a":"2"}},"spec":{"size":2}}`; got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
}
