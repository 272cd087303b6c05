package standalone

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// memory is what the setter remembers. It can be lost: jobs then have more time, never less, and items are read again.
type memory struct {
	mu    sync.Mutex
	items map[types.NamespacedName]remembered
	// served is since when the types are served.
	served map[v1alpha1.DeployItemType]time.Time
}

// remembered is what is remembered of an item.
type remembered struct {
	observation
	// generation was seen last, and changed is when it was first; zero if its job may have been set for it.
	generation int64
	changed    time.Time
	// unservedSince is since when it is seen to need something and to be of a type that nobody serves, as long as it
	// does not say so.
	unservedSince time.Time
}

// observation is what the content of an item at one version says. It stays true for ever, whoever is elected and
// whatever is served.
type observation struct {
	version  string // the resourceVersion
	itemType v1alpha1.DeployItemType
	// idle: it needs nothing as long as it stays as it is.
	idle bool
	// jobLater: it needs a job when the one under way has ended, since that was picked up as it was before. A write to
	// its status, which is not urgent otherwise, may be that end.
	jobLater bool
	// saysUnserved: it says that nobody serves its type.
	saysUnserved bool
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

// see notes an item that was read, and returns what is known of it. A generation that no deployer has seen, when
// nothing was seen before, may be a change that came after the job, and is taken for it.
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

// remember remembers what was seen of an item. What is older than the item in the cache has it read again.
func (m *memory) remember(item *v1alpha1.DeployItem, idle bool) observation {
	times := item.Status.TransitionTimes
	waits := times != nil && times.InitTime.IsZero() // whoever picks its job up notes the generation as it is then
	return m.change(client.ObjectKeyFromObject(item), func(r *remembered) {
		r.observation = observation{
			version: item.ResourceVersion, itemType: item.Spec.Type, idle: idle,
			jobLater: needsJob(item) && !contract.Finished(item) && !waits, saysUnserved: contract.Unserved(item) != "",
		}
	}).observation
}

// last returns what was last seen of an item.
func (m *memory) last(key types.NamespacedName) observation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.items[key].observation
}

// recall returns what is remembered of an item, if it has not changed since.
func (m *memory) recall(meta *metav1.PartialObjectMetadata) (observation, bool) {
	seen := m.last(client.ObjectKeyFromObject(meta))
	return seen, seen.version != "" && !contract.Newer(meta.ResourceVersion, seen.version)
}

// drop forgets what was seen of an item's job, because this setter leaves the item alone.
func (m *memory) drop(key types.NamespacedName) {
	m.change(key, func(r *remembered) { *r = remembered{observation: r.observation} })
}

// forget forgets an item that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.change(key, func(r *remembered) { *r = remembered{} })
}

// seenUnserved notes that an item needs something and is of a type that nobody serves, and returns since when that is
// so.
func (m *memory) seenUnserved(key types.NamespacedName, now time.Time) time.Time {
	return m.change(key, func(r *remembered) {
		if r.unservedSince.IsZero() {
			r.unservedSince = now
		}
	}).unservedSince
}
