package standalone

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// memory is the setter's memory of items with work. It can be lost: jobs then have more time, never less.
type memory struct {
	mu    sync.Mutex
	items map[types.NamespacedName]remembered
	// served is since when the types are served.
	served map[v1alpha1.DeployItemType]time.Time
}

// remembered is the memory of an item.
type remembered struct {
	// generation was seen last, and changed is when it was first; zero if its job may have been set for it.
	generation int64
	changed    time.Time
	// unservedSince is since when the item needs something although no plugin serves its type, until its status says so.
	unservedSince time.Time
}

func newMemory() *memory {
	return &memory{items: map[types.NamespacedName]remembered{}, served: map[v1alpha1.DeployItemType]time.Time{}}
}

// change changes what is remembered of an item, and returns it.
func (m *memory) change(key types.NamespacedName, change func(*remembered)) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.items[key]
	change(&r)
	if r == (remembered{}) {
		delete(m.items, key)
	} else {
		m.items[key] = r
	}
	return r
}

// see notes an item, and returns what is known of it. A generation that no deployer has seen, when nothing was seen
// before, may be a change that came after the job, and is taken for it.
func (m *memory) see(item *v1alpha1.DeployItem, now time.Time) (k known) {
	m.change(client.ObjectKeyFromObject(item), func(r *remembered) {
		r.unservedSince = time.Time{}
		if r.generation != item.Generation {
			if r.generation != 0 || item.Generation != item.Status.ObservedGeneration {
				r.changed = now
			}
			r.generation = item.Generation
		}
		k = known{served: m.served[item.Spec.Type], changed: r.changed}
	})
	return k
}

// serve remembers that the types are served from now on.
func (m *memory) serve(served []v1alpha1.DeployItemType, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, itemType := range served {
		m.served[itemType] = now
	}
}

// forget forgets an item that is gone, needs nothing, or is left alone by this setter.
func (m *memory) forget(key types.NamespacedName) {
	m.change(key, func(r *remembered) { *r = remembered{} })
}

// seenUnserved notes that an item needs something although no plugin serves its type, and returns since when.
func (m *memory) seenUnserved(key types.NamespacedName, now time.Time) time.Time {
	return m.change(key, func(r *remembered) {
		if r.unservedSince.IsZero() {
			r.unservedSince = now
		}
	}).unservedSince
}
