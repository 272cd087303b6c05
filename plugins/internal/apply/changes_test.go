package apply

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// TestChanges: a patch changes fields if they are others after it, apart from maps that it leaves empty.
func TestChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, patch := jsonObject().Draw(t, "base"), jsonObject().Draw(t, "patch")
		base = patched(nil, base) // An object on a target has no nulls.
		before, after := withoutEmptied(patched(nil, base), patch), withoutEmptied(patched(base, patch), patch)
		if got, want := Changes(base, patch), !reflect.DeepEqual(before, after); got != want {
			t.Fatalf("%v with %v: expected %t, but found %t; after it is %v", base, patch, want, got, after)
		}
		if Changes(patched(base, patch), patch) {
			t.Fatalf("%v with %v: there is still something to change", base, patch)
		}
	})
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
	item := &Item{Desired: manifest}
	if got, want := string(item.DocumentNamed(live)), `{"kind":"Thing","metadata":{"labels":{"a":"2"}},"spec":{"size":2}}`; got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
}
