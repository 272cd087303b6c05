package objectjob

import (
	"slices"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Inventory records the managed objects of a deploy item in the order of their addition. It is saved before the
// creation of an object, and keeps the object until it is seen gone, so that no failure in between loses one. It is
// not safe for concurrent use.
type Inventory struct {
	entries map[object.Key]managedresource.ManagedResourceStatus
	// keys are those of the entries, in their order.
	keys []object.Key
}

// NewInventory returns an inventory with copies of entries. Of several entries for one object the last counts.
func NewInventory(entries []managedresource.ManagedResourceStatus) *Inventory {
	l := &Inventory{entries: map[object.Key]managedresource.ManagedResourceStatus{}}
	for _, e := range entries {
		l.set(e)
	}
	return l
}

// entryGrowth is the growth of an entry in bytes at the creation of its object: by UID and digest.
const entryGrowth = 128

// growth is the growth of the inventory in bytes until the creation of all its objects.
func (l *Inventory) growth() (bytes int) {
	for _, e := range l.entries {
		if e.Resource.UID == "" {
			bytes += entryGrowth
		}
	}
	return bytes
}

func (l *Inventory) set(e managedresource.ManagedResourceStatus) {
	key := object.KeyOfReference(e.Resource)
	if _, ok := l.entries[key]; !ok {
		l.keys = append(l.keys, key)
	}
	l.entries[key] = e
}

// Normalize gives each entry the namespace of its object. If several entries are about the same object then, the last
// counts.
func (l *Inventory) Normalize(namespace func(managedresource.ObjectReference) (string, error)) error {
	normal := NewInventory(nil)
	for _, e := range l.Entries() {
		var err error
		if e.Resource.Namespace, err = namespace(e.Resource); err != nil {
			return err
		}
		normal.set(e)
	}
	*l = *normal
	return nil
}

// Get returns the entry of an object.
func (l *Inventory) Get(key object.Key) (e managedresource.ManagedResourceStatus, ok bool) {
	e, ok = l.entries[key]
	return e, ok
}

// Expect notes that the object of an entry is about to be applied. Of the entry before, the uid and the completing
// job stay. Its hash stays unless it is stale: then the state of the object is uncertain until it is applied.
func (l *Inventory) Expect(e managedresource.ManagedResourceStatus, stale func(applied string) bool) {
	before, _ := l.Get(object.KeyOfReference(e.Resource))
	e.Resource.UID, e.Applied, e.DoneIn, e.Existed = before.Resource.UID, "", before.DoneIn, before.Existed
	e.Shared = before.Shared
	if !stale(before.Applied) {
		e.Applied = before.Applied
	}
	l.set(e)
}

// Applied notes the hash of an applied object. The reference has its uid.
func (l *Inventory) Applied(r managedresource.ObjectReference, applied string) {
	e, _ := l.Get(object.KeyOfReference(r))
	e.Resource, e.Applied = r, applied
	l.set(e)
}

// Shared notes the fields dropped by a manifest but also set by other field managers; empty for none.
func (l *Inventory) Shared(key object.Key, fields string) {
	if e, ok := l.Get(key); ok {
		e.Shared = fields
		l.set(e)
	}
}

// Existed notes that the deploy item has not created an object.
func (l *Inventory) Existed(key object.Key) {
	if e, ok := l.Get(key); ok {
		e.Existed = true
		l.set(e)
	}
}

// Done notes the job in which an object completed, see ManagedResourceStatus; empty for none.
func (l *Inventory) Done(key object.Key, jobID string) {
	if e, ok := l.Get(key); ok {
		e.DoneIn = jobID
		l.set(e)
	}
}

// Gone drops the entry of an object seen gone.
func (l *Inventory) Gone(key object.Key) {
	delete(l.entries, key)
	l.keys = slices.DeleteFunc(l.keys, func(k object.Key) bool { return k == key })
}

// Entries returns all entries. The caller may keep the slice.
func (l *Inventory) Entries() []managedresource.ManagedResourceStatus { return l.Without(nil) }

// Without returns the entries of objects other than the given ones. The caller may keep the slice.
func (l *Inventory) Without(wanted map[object.Key]bool) []managedresource.ManagedResourceStatus {
	var others []managedresource.ManagedResourceStatus
	for _, key := range l.keys {
		if !wanted[key] {
			others = append(others, l.entries[key])
		}
	}
	return others
}
