package standalone

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// memory is the setter's memory of items with work. It can be lost: jobs then have more time, never less.
type memory struct {
	mu    sync.Mutex
	items map[types.NamespacedName]remembered
	// comparisons has the time of the next comparison of each item compared at the interval: many items, and no timer for
	// each of them.
	comparisons map[types.NamespacedName]time.Time
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
	// repaired: an object that the item uses has changed since its last job was set.
	repaired bool
	// compare: it is time for a comparison.
	compare bool
}

func newMemory() *memory {
	return &memory{
		items: map[types.NamespacedName]remembered{}, comparisons: map[types.NamespacedName]time.Time{},
		served: map[v1alpha1.DeployItemType]time.Time{},
	}
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
		r.repaired = r.repaired && (contract.Failed(item) || !contract.Finished(item))
		k = known{
			served: m.served[item.Spec.Type], changed: r.changed, repaired: r.repaired, compare: r.compare,
		}
	})
	return k
}

// repair remembers a change of an object that an item uses.
func (m *memory) repair(key types.NamespacedName) {
	m.change(key, func(r *remembered) { r.repaired = true })
}

// jobSet notes a new job of an item: it sees all changes of used objects, and compares.
func (m *memory) jobSet(key types.NamespacedName) {
	m.change(key, func(r *remembered) { r.repaired, r.compare = false, false })
}

// schedule has an item compared at an interval; zero for never.
func (m *memory) schedule(item *v1alpha1.DeployItem, interval time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(item)
	if _, scheduled := m.comparisons[key]; interval <= 0 {
		delete(m.comparisons, key)
	} else if !scheduled {
		m.comparisons[key] = nextComparison(item.UID, interval, now)
	}
}

// due returns the items whose time of a comparison has come, remembers that, and schedules their next one.
func (m *memory) due(interval time.Duration, now time.Time) (due []types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, at := range m.comparisons {
		if late := now.Sub(at); late >= 0 {
			due = append(due, key)
			r := m.items[key]
			r.compare = true
			m.items[key], m.comparisons[key] = r, at.Add(late.Truncate(interval)+interval)
		}
	}
	return due
}

// recall returns the knowledge of an item.
func (m *memory) recall(item *v1alpha1.DeployItem) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.items[client.ObjectKeyFromObject(item)]
	return known{repaired: r.repaired, compare: r.compare}
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
