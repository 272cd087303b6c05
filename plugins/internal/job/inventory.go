package job

import (
	"slices"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Inventory keeps account of the objects that a deploy item manages. It is saved before an object is created and keeps
// it until it was seen gone, so that whatever happens in between, nothing is forgotten. The order of its entries is the
// order in which they came. It is not safe for concurrent use.
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

// entryGrowth is by how many bytes an entry grows when its object is created: UID and digest.
const entryGrowth = 128

// growth is by how many bytes the inventory grows when all its objects have been created.
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

// Normalize gives the entries the namespaces that their objects have, where they are noted in another way: of several
// entries that are about the same object then, the last counts.
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

// Expect notes that the object of an entry is about to be applied. Of what was noted before, the uid and the job in
// which it was done are kept, and what was applied unless stale says that it is not what will be applied now: then
// nobody can know for sure, until the object was applied, what it looks like.
func (l *Inventory) Expect(e managedresource.ManagedResourceStatus, stale func(applied string) bool) {
	before, _ := l.Get(object.KeyOfReference(e.Resource))
	e.Resource.UID, e.Applied, e.DoneIn, e.Existed = before.Resource.UID, "", before.DoneIn, before.Existed
	e.Shared = before.Shared
	if !stale(before.Applied) {
		e.Applied = before.Applied
	}
	l.set(e)
}

// Applied notes that the object of a reference, which has its uid, was applied.
func (l *Inventory) Applied(r managedresource.ObjectReference, applied string) {
	e, _ := l.Get(object.KeyOfReference(r))
	e.Resource, e.Applied = r, applied
	l.set(e)
}

// Shared notes the fields that a manifest has dropped and that other field managers have set too; empty for none.
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

// Done notes the job in which an object is done, see ManagedResourceStatus; empty if it is not.
func (l *Inventory) Done(key object.Key, jobID string) {
	if e, ok := l.Get(key); ok {
		e.DoneIn = jobID
		l.set(e)
	}
}

// Gone drops the entry of an object that was seen gone.
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
