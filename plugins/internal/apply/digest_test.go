package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
)

// content draws JSON as the decoder makes it.
func content(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[a-z]{0,3}`), func(s string) any { return s }),
		rapid.Map(rapid.Int64Range(0, 9), func(n int64) any { return n }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(
		scalar,
		rapid.Map(rapid.SliceOfN(content(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-d]`), content(depth-1), 0, 3), func(m map[string]any) any { return m }),
	)
}

func thing(spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}}
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
			out["default"] = content(1).Draw(t, "default")
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

// TestMemo checks the property that the package comment promises: what others add beside the fields of the manifest makes no
// difference, what they change in them does, and so does every change of the manifest.
func TestMemo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := content(3).Draw(t, "spec")
		item := newItem(thing(spec), targetclient.Mapping{}, false, nil)
		written := memo(item, item.Desired)

		grown := item.Desired.DeepCopy()
		grown.Object["spec"] = grow(t, spec)
		grown.Object["status"] = content(2).Draw(t, "status")
		grown.SetResourceVersion("7")
		if memo(item, grown) != written {
			t.Fatalf("fields that the manifest does not name make a difference: %v and %v", spec, grown.Object["spec"])
		}

		n := rapid.IntRange(1, 5).Draw(t, "n")
		left := n
		drifted := item.Desired.DeepCopy()
		drifted.Object["spec"] = change(spec, &left)
		if left <= 0 && memo(item, drifted) == written {
			t.Fatalf("a changed value makes no difference: %v and %v", spec, drifted.Object["spec"])
		}

		other := newItem(thing(content(3).Draw(t, "other")), targetclient.Mapping{}, false, nil)
		if digest(other.Desired.Object["spec"]) != digest(spec) && !other.Stale(written) {
			t.Fatalf("another manifest is taken for the one that was written")
		}
		if item.Stale(written) {
			t.Fatal("the manifest that was written is taken for another one")
		}
	})
}

func TestMemoSeesListsGrow(t *testing.T) {
	t.Parallel()
	item := newItem(thing([]any{"a"}), targetclient.Mapping{}, false, nil)
	if memo(item, item.Desired) == memo(item, thing([]any{"a", "b"})) {
		t.Error("one more element makes no difference")
	}
}
