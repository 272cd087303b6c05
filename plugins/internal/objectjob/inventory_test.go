package objectjob_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func reference(apiVersion, name, uid string) managedresource.ObjectReference {
	return managedresource.ObjectReference{
		APIVersion: apiVersion, Kind: "A", Namespace: "n", Name: name, UID: types.UID(uid),
	}
}

func entry(apiVersion, name, uid, applied string) managedresource.ManagedResourceStatus {
	return managedresource.ManagedResourceStatus{
		Policy: managedresource.PolicyManage, Resource: reference(apiVersion, name, uid), Applied: applied,
	}
}

func key(name string) object.Key {
	return object.Key{Group: "g", Kind: "A", Namespace: "n", Name: name}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	// What an expectation says of these counts for nothing.
	expected := func(apiVersion, name string) managedresource.ManagedResourceStatus {
		return entry(apiVersion, name, "other", "other")
	}
	same := func(string) bool { return false }
	stale := func(string) bool { return true }
	old := []managedresource.ManagedResourceStatus{entry("g/v1", "a", "1", "hash"), entry("g/v1", "b", "2", "hash")}
	for name, c := range map[string]struct {
		reason string
		do     func(*objectjob.Inventory)
		want   []managedresource.ManagedResourceStatus
	}{
		"expect the same": {
			reason: "what is known of an object stays, also in another version of its API",
			do:     func(l *objectjob.Inventory) { l.Expect(expected("g/v2", "a"), same) },
			want:   []managedresource.ManagedResourceStatus{entry("g/v2", "a", "1", "hash"), entry("g/v1", "b", "2", "hash")},
		},
		"expect another": {
			reason: "what was applied is not known any more, the uid is",
			do:     func(l *objectjob.Inventory) { l.Expect(expected("g/v1", "a"), stale) },
			want:   []managedresource.ManagedResourceStatus{entry("g/v1", "a", "1", ""), entry("g/v1", "b", "2", "hash")},
		},
		"expect a new one": {
			reason: "the entry comes before the object",
			do:     func(l *objectjob.Inventory) { l.Expect(expected("g/v1", "c"), stale) },
			want:   append(old[:2:2], entry("g/v1", "c", "", "")),
		},
		"applied": {
			reason: "a new instance replaces the old one",
			do:     func(l *objectjob.Inventory) { l.Applied(reference("g/v1", "a", "9"), "new") },
			want:   []managedresource.ManagedResourceStatus{entry("g/v1", "a", "9", "new"), entry("g/v1", "b", "2", "hash")},
		},
		"gone": {
			reason: "only what was seen gone is forgotten, and the rest can still be found",
			do: func(l *objectjob.Inventory) {
				l.Gone(key("a"))
				l.Gone(key("unknown"))
				l.Applied(reference("g/v1", "b", "3"), "new")
			},
			want: []managedresource.ManagedResourceStatus{entry("g/v1", "b", "3", "new")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := objectjob.NewInventory(old)
			c.do(l)
			if diff := cmp.Diff(c.want, l.Entries()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	l := objectjob.NewInventory([]managedresource.ManagedResourceStatus{
		entry("g/v1", "a", "1", ""), entry("g/v1", "b", "2", ""), entry("g/v2", "b", "3", ""),
	})
	want := []managedresource.ManagedResourceStatus{entry("g/v2", "b", "3", "")}
	if diff := cmp.Diff(want, l.Without(map[object.Key]bool{key("a"): true})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
