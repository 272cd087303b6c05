package standalone

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
	seen observation
	// jobLater: it needs a job when the one under way has ended. A write to its status, which is not urgent otherwise,
	// may be that end.
	jobLater bool
	// waiting is what was last seen of its job, if that is not picked up yet.
	waiting waitingJob
	// unserved is since when it is seen to need something and to be of a type that nobody serves, as long as it does
	// not say so.
	unserved time.Time
}

// observation is what the content of an item at one version says. It stays true for ever, whoever is elected and
// whatever is served.
type observation struct {
	version  string // the resourceVersion
	itemType v1alpha1.DeployItemType
	// idle: it needs nothing as long as it stays as it is.
	idle bool
	// unserved is what it says of its type, which nobody serves; empty if it says nothing.
	unserved string
}

// waitingJob is what was last seen of a job that waits for a deployer.
type waitingJob struct {
	jobID      string
	generation int64
	// changed is when it was seen that the item has changed while its job was waiting; zero for never.
	changed time.Time
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

// see notes an item that was read, and returns what is known of it.
func (m *memory) see(item *v1alpha1.DeployItem, now time.Time) known {
	r := m.change(client.ObjectKeyFromObject(item), func(r *remembered) {
		r.unserved = time.Time{}
		if contract.Finished(item) || contract.PickedUp(item) {
			r.waiting = waitingJob{}
		} else {
			r.waiting = r.waiting.next(item, now)
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	return known{served: m.served[item.Spec.Type], changed: r.waiting.changed}
}

// next is what is seen of the job next. Without anything before it, a generation that no deployer has seen may be a
// change that came after the job, and is taken for it.
func (s waitingJob) next(item *v1alpha1.DeployItem, now time.Time) waitingJob {
	before := s.generation
	if s.jobID != item.Status.JobID {
		s, before = waitingJob{jobID: item.Status.JobID}, item.Status.ObservedGeneration
	}
	if item.Generation != before {
		s.changed = now
	}
	s.generation = item.Generation
	return s
}

// setFor remembers a job that was set for an item as it is.
func (m *memory) setFor(item *v1alpha1.DeployItem) {
	m.change(client.ObjectKeyFromObject(item), func(r *remembered) {
		r.waiting = waitingJob{jobID: item.Status.JobID, generation: item.Generation}
	})
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
func (m *memory) remember(item *v1alpha1.DeployItem, idle bool) {
	m.change(client.ObjectKeyFromObject(item), func(r *remembered) {
		r.seen = observation{
			version: item.ResourceVersion, itemType: item.Spec.Type, idle: idle, unserved: contract.Unserved(item),
		}
	})
}

// recall returns what is remembered of an item, if it has not changed since.
func (m *memory) recall(meta *metav1.PartialObjectMetadata) (observation, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.items[client.ObjectKeyFromObject(meta)].seen
	return seen, seen.version != "" && !newer(meta.ResourceVersion, seen.version)
}

// drop forgets what was seen of an item's job, because this setter leaves the item alone.
func (m *memory) drop(key types.NamespacedName) {
	m.change(key, func(r *remembered) { *r = remembered{seen: r.seen} })
}

// forget forgets an item that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.change(key, func(r *remembered) { *r = remembered{} })
}

// seenUnserved notes that an item needs something and is of a type that nobody serves, and returns since when that is
// so.
func (m *memory) seenUnserved(key types.NamespacedName, now time.Time) time.Time {
	return m.change(key, func(r *remembered) {
		if r.unserved.IsZero() {
			r.unserved = now
		}
	}).unserved
}

func (m *memory) setJobLater(key types.NamespacedName, jobLater bool) {
	m.change(key, func(r *remembered) { r.jobLater = jobLater })
}

func (m *memory) needsJobLater(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.items[key].jobLater
}

// newer reports whether version a is newer than b. Versions that cannot be compared count as newer, which costs a read.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
