package objectjob_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// entry is an entry of an inventory, as in "g/v1 name uid hash".
func entry(text string) managedresource.ManagedResourceStatus {
	parts := append(strings.Split(text, " "), "", "")
	return managedresource.ManagedResourceStatus{
		Policy: managedresource.PolicyManage, Applied: parts[3],
		Resource: managedresource.ObjectReference{
			APIVersion: parts[0], Kind: "A", Namespace: "n", Name: parts[1], UID: types.UID(parts[2]),
		},
	}
}

func entries(texts ...string) (all []managedresource.ManagedResourceStatus) {
	for _, text := range texts {
		all = append(all, entry(text))
	}
	return all
}

func key(name string) object.Key {
	return object.Key{Group: "g", Kind: "A", Namespace: "n", Name: name}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	same := func(string) bool { return false }
	stale := func(string) bool { return true }
	for name, c := range map[string]struct {
		reason string
		do     func(*objectjob.Inventory)
		want   []managedresource.ManagedResourceStatus
	}{
		// What an expectation says of uid and hash counts for nothing.
		"expect the same": {
			"what is known of an object stays, also in another version of its API",
			func(l *objectjob.Inventory) { l.Expect(entry("g/v2 a other other"), same) },
			entries("g/v2 a 1 hash", "g/v1 b 2 hash"),
		},
		"expect another": {
			"what was applied is not known any more, the uid is",
			func(l *objectjob.Inventory) { l.Expect(entry("g/v1 a other other"), stale) },
			entries("g/v1 a 1", "g/v1 b 2 hash"),
		},
		"expect a new one": {
			"the entry comes before the object",
			func(l *objectjob.Inventory) { l.Expect(entry("g/v1 c other other"), stale) },
			entries("g/v1 a 1 hash", "g/v1 b 2 hash", "g/v1 c"),
		},
		"applied": {
			"a new instance replaces the old one",
			func(l *objectjob.Inventory) { l.Applied(entry("g/v1 a 9").Resource, "new") },
			entries("g/v1 a 9 new", "g/v1 b 2 hash"),
		},
		"gone": {
			"only what was seen gone is forgotten, and the rest can still be found",
			func(l *objectjob.Inventory) {
				l.Gone(key("a"))
				l.Gone(key("unknown"))
				l.Applied(entry("g/v1 b 3").Resource, "new")
			},
			entries("g/v1 b 3 new"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := objectjob.NewInventory(entries("g/v1 a 1 hash", "g/v1 b 2 hash"))
			c.do(l)
			if diff := cmp.Diff(c.want, l.Entries()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	l := objectjob.NewInventory(entries("g/v1 a 1", "g/v1 b 2", "g/v2 b 3"))
	if diff := cmp.Diff(entries("g/v2 b 3"), l.Without(map[object.Key]bool{key("a"): true})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
