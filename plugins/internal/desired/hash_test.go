package desired

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

type fields = map[string]any

func thing(spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "Thing", "metadata": fields{"name": "a"}, "spec": spec,
	}}
}

// itemOf returns an item with default settings.
func itemOf(o *unstructured.Unstructured) *Object {
	by := owner.Owner{Namespace: "ns", Name: "item"}
	return New(Manifest{Manifest: object.Manifest{Object: o}}, target.Mapping{}, false, by)
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

// TestDigestOfManifest says which settings make an object be written again.
func TestDigestOfManifest(t *testing.T) {
	t.Parallel()
	const update, merge = managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyMerge
	annotated := func(key, value string) func(m *Manifest) {
		return func(m *Manifest) { m.AnnotateBeforeCreate = map[string]string{key: value} }
	}
	for reason, c := range map[string]struct {
		change func(*Manifest)
		stale  bool
	}{
		"the same settings":                       {func(*Manifest) {}, false},
		"a policy says whether, not what":         {func(m *Manifest) { m.Policy = managedresource.PolicyKeep }, false},
		"the default strategy is update":          {func(m *Manifest) { m.Strategy = update }, false},
		"recreate and force change no fields":     {func(m *Manifest) { m.Recreate, m.Force = true, true }, false},
		"update removes what merge has left":      {func(m *Manifest) { m.Strategy = merge }, true},
		"annotations of before stay as they are":  {annotated("a", "c"), false},
		"an annotation that is not kept now goes": {annotated("b", "b"), true},
		"fields of the patch before have to go": {func(m *Manifest) {
			m.PatchAfterDeployment = fields{"spec": "patched"}
		}, true},
	} {
		m := Manifest{Manifest: object.Manifest{Object: thing("x")}, AnnotateBeforeCreate: map[string]string{"a": "b"}}
		before := New(m, target.Mapping{}, false, owner.Owner{})
		c.change(&m)
		after := New(m, target.Mapping{}, false, owner.Owner{})
		if got := after.Stale(before.Hash(before.Desired)); got != c.stale {
			t.Errorf("%s: expected that the object is to be written: %t, but found %t", reason, c.stale, got)
		}
	}
}

// TestHashOfLiveObjects: the API server leaves out a map that has become empty. When somebody else puts a field into
// it, that is no change of what the manifest names.
func TestHashOfLiveObjects(t *testing.T) {
	t.Parallel()
	item := itemOf(thing(plugintest.Fields(`{data: {a: ""}, empty: {}, list: [a]}`)))
	without := item.Hash(thing(plugintest.Fields(`{empty: {}, list: [a]}`)))
	for reason, c := range map[string]struct {
		live string
		same bool
	}{
		"a field of others in a map":           {`{data: {b: theirs}, empty: {}, list: [a]}`, true},
		"a named field":                        {`{data: {a: ""}, empty: {}, list: [a]}`, false},
		"a map that the manifest wants, empty": {`{list: [a]}`, false},
		"one more element":                     {`{empty: {}, list: [a, b]}`, false},
	} {
		if got := item.Hash(thing(plugintest.Fields(c.live))) == without; got != c.same {
			t.Errorf("%s: expected that it makes no difference: %t, but found %t", reason, c.same, got)
		}
	}
}

// TestDocumentNamed: what a repair changes is shown without what others and the API server add to the object.
// Rule (SECURITY.md#secrets): A difference before a repair of a release's object shows the fields of its manifest
// alone.
func TestDocumentNamed(t *testing.T) {
	t.Parallel()
	manifest := plugintest.Object(`{kind: Thing, metadata: {name: a, labels: {a: "1"}}, spec: {size: 1}}`)
	live := plugintest.Object(`{kind: Thing, spec: {size: 2, default: true}, status: {ready: true},
		metadata: {name: a, labels: {a: "2", b: "1"}, managedFields: [{manager: x}]}}`)
	const want = `{"kind":"Thing","metadata":{"labels":{"a":"2"}},"spec":{"size":2}}`
	if got := string((&Object{Desired: manifest}).DocumentNamed(live)); got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
}
