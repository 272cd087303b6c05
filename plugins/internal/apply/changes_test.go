package apply

import (
	"reflect"
	"testing"

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
