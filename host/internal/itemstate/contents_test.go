package itemstate

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestContents: the newest version is kept, as far as there is room, and handed over once.
func TestContents(t *testing.T) {
	c := NewContents()
	for _, version := range []string{"5", "4"} {
		c.Put(Content{Item: itemAt("a", version)})
	}
	for _, tc := range []struct {
		reason  string
		uid     types.UID
		version string
		ok      bool
	}{
		{"another item of the name", "b", "5", false},
		{"the cache has a newer version", "a", "6", false},
		{"it is the newest", "a", "5", true},
		{"it is handed over", "a", "5", false},
	} {
		if _, ok := c.Take(itemKey, tc.uid, tc.version); ok != tc.ok {
			t.Errorf("%s: found %t", tc.reason, ok)
		}
	}
	c.Put(Content{Item: itemAt("a", "5")})
	c.Put(Content{Item: itemAt("a", "5"), Own: true})
	if found, _ := c.Take(itemKey, "a", "5"); !found.Own {
		t.Error("expected the item as it was written here")
	}
	large := itemAt("a", "5")
	large.Spec.Config = &runtime.RawExtension{Raw: make([]byte, maxContents)}
	c.Put(Content{Item: large})
	if _, ok := c.Take(itemKey, "a", "5"); ok || c.size != 0 {
		t.Errorf("expected no room, but found %t, and %d bytes", ok, c.size)
	}
}
