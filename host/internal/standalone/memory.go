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
	// served has the time of the first plugin for each type.
	served map[v1alpha1.DeployItemType]time.Time
}

// remembered is the memory of an item.
type remembered struct {
	// generation was seen last, and at first at changed; zero if its job may have been set for it.
	generation int64
	changed    time.Time
	// unservedSince is the begin of a need without a plugin for the type, until the status reports it.
	unservedSince time.Time
}

func newMemory() *memory {
	return &memory{items: map[types.NamespacedName]remembered{}, served: map[v1alpha1.DeployItemType]time.Time{}}
}

// change changes the memory of an item, and returns it.
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

// see notes an item, and returns the knowledge of it. A generation new to memory and deployer may have come after the
// job, and counts as a change.
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

// forget forgets an item after its end, without a need, or outside of the setter's types.
func (m *memory) forget(key types.NamespacedName) {
	m.change(key, func(r *remembered) { *r = remembered{} })
}

// seenUnserved notes a need without a plugin for the type, and returns its begin.
func (m *memory) seenUnserved(key types.NamespacedName, now time.Time) time.Time {
	return m.change(key, func(r *remembered) {
		if r.unservedSince.IsZero() {
			r.unservedSince = now
		}
	}).unservedSince
}
