package job

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
	mu sync.Mutex
	// patient are the items that need a job when the one under way has ended. A write to their status, which is not urgent
	// otherwise, may be that end.
	patient map[types.NamespacedName]bool
	// waiting are the items whose job is not picked up yet.
	waiting map[types.NamespacedName]sighting
	// unserved is since when items are seen to need something and to be of a type that nobody serves, as long as they
	// do not say so.
	unserved map[types.NamespacedName]time.Time
	// served is since when the types are served.
	served map[v1alpha1.DeployItemType]time.Time
	// judged are the items whose content was seen. What is remembered of an item stays true for ever, whoever is elected and
	// whatever is served.
	judged map[types.NamespacedName]judgement
}

// judgement is what the content of an item at one version says of the need for a look.
type judgement struct {
	uid      types.UID
	version  string // the resourceVersion
	itemType v1alpha1.DeployItemType
	// atRest: it needs nothing, and will not as long as it stays as it is.
	atRest bool
	// unserved is what it says of its type, which nobody serves; empty if it says nothing.
	unserved string
}

// sighting is what was last seen of a job that waits for a deployer.
type sighting struct {
	jobID      string
	generation int64
	// changed is when it was seen that the item has changed while its job was waiting; zero for never.
	changed time.Time
}

func newMemory() *memory {
	return &memory{
		patient: map[types.NamespacedName]bool{},
		waiting: map[types.NamespacedName]sighting{},

		unserved: map[types.NamespacedName]time.Time{},
		served:   map[v1alpha1.DeployItemType]time.Time{},
		judged:   map[types.NamespacedName]judgement{},
	}
}

// see takes a look at an item and tells what is known of it.
func (m *memory) see(item *v1alpha1.DeployItem, now time.Time) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := known{served: m.served[item.Spec.Type]}
	key := client.ObjectKeyFromObject(item)
	delete(m.unserved, key)
	if item.Status.JobID == item.Status.JobIDFinished || pickedUp(&item.Status, jobSet(&item.Status)) {
		delete(m.waiting, key)
		return k
	}
	seen := m.waiting[key].next(item, now)
	m.waiting[key] = seen
	k.changed = seen.changed
	return k
}

// next is the sighting that follows another one. Without one before it, a generation that no deployer has seen may be a change
// that came after the job, and is taken for it.
func (s sighting) next(item *v1alpha1.DeployItem, now time.Time) sighting {
	before := s.generation
	if s.jobID != item.Status.JobID {
		s, before = sighting{jobID: item.Status.JobID}, item.Status.ObservedGeneration
	}
	if item.Generation != before {
		s.changed = now
	}
	s.generation = item.Generation
	return s
}

// setFor remembers a job that was set for an item as it is.
func (m *memory) setFor(item *v1alpha1.DeployItem, jobID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[client.ObjectKeyFromObject(item)] = sighting{jobID: jobID, generation: item.Generation}
}

// serve remembers that the types are served from now on.
func (m *memory) serve(served []v1alpha1.DeployItemType, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, itemType := range served {
		m.served[itemType] = now
	}
}

// judge remembers what was seen of an item, unless what is remembered is newer.
func (m *memory) judge(item *v1alpha1.DeployItem, atRest bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(item)
	if known, ok := m.judged[key]; ok && known.uid == item.UID && !newer(item.ResourceVersion, known.version) {
		return
	}
	m.judged[key] = judgement{
		uid: item.UID, version: item.ResourceVersion, itemType: item.Spec.Type, atRest: atRest,
		unserved: contract.Unserved(item),
	}
}

// recall returns what is remembered of an item, if it has not changed since.
func (m *memory) recall(meta *metav1.PartialObjectMetadata) (judgement, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.judged[client.ObjectKeyFromObject(meta)]
	return j, ok && j.uid == meta.UID && !newer(meta.ResourceVersion, j.version)
}

// drop forgets what was seen of an item's job, because this setter leaves the item alone.
func (m *memory) drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.patient, key)
	delete(m.waiting, key)
	delete(m.unserved, key)
}

// seenUnserved notes that an item needs something and is of a type that nobody serves, and returns since when that is
// so.
func (m *memory) seenUnserved(key types.NamespacedName, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, seen := m.unserved[key]; !seen {
		m.unserved[key] = now
	}
	return m.unserved[key]
}

// forget forgets an item that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.drop(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.judged, key)
}

func (m *memory) setPatient(key types.NamespacedName, patient bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if patient {
		m.patient[key] = true
	} else {
		delete(m.patient, key)
	}
}

func (m *memory) isPatient(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.patient[key]
}

// newer tells whether version a is newer than b. Versions that cannot be compared count as newer, which costs a read.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
