package rollout

import (
	"slices"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Inventory keeps account of the objects that a deploy item manages. It is saved before an object is created and keeps it
// until it was seen gone, so that whatever happens in between, nothing is forgotten. The order of its entries is the
// order in which they came. It is not safe for concurrent use.
type Inventory struct {
	entries []managedresource.ManagedResourceStatus
	index   map[object.Key]int
}

// NewInventory returns an inventory with copies of entries. Of several entries for one object the last counts.
func NewInventory(entries []managedresource.ManagedResourceStatus) *Inventory {
	l := &Inventory{index: map[object.Key]int{}}
	for _, e := range entries {
		l.set(e)
	}
	return l
}

func (l *Inventory) set(e managedresource.ManagedResourceStatus) {
	key := object.KeyOfReference(e.Resource)
	if i, ok := l.index[key]; ok {
		l.entries[i] = e
		return
	}
	l.index[key] = len(l.entries)
	l.entries = append(l.entries, e)
}

// Normalize gives the entries the namespaces that their objects have, where they are noted in another way: of several
// entries that are about the same object then, the last counts.
func (l *Inventory) Normalize(namespace func(managedresource.ObjectReference) (string, error)) error {
	normal := NewInventory(nil)
	for _, e := range l.entries {
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
	i, ok := l.index[key]
	if !ok {
		return e, false
	}
	return l.entries[i], true
}

// Expect notes that the object of an entry is about to be applied. Of what was noted before, the uid and the job in
// which it was done are kept, and what was applied unless stale says that it is not what will be applied now: then
// nobody can know for sure, until the object was applied, what it looks like.
func (l *Inventory) Expect(e managedresource.ManagedResourceStatus, stale func(applied string) bool) {
	before, _ := l.Get(object.KeyOfReference(e.Resource))
	e.Resource.UID, e.Applied, e.DoneIn = before.Resource.UID, "", before.DoneIn
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

// Done notes the job in which an object is done, see ManagedResourceStatus; empty if it is not.
func (l *Inventory) Done(key object.Key, jobID string) {
	if e, ok := l.Get(key); ok {
		e.DoneIn = jobID
		l.set(e)
	}
}

// Gone drops the entry of an object that was seen gone.
func (l *Inventory) Gone(key object.Key) {
	i, ok := l.index[key]
	if !ok {
		return
	}
	l.entries = slices.Delete(l.entries, i, i+1)
	delete(l.index, key)
	for other, j := range l.index {
		if j > i {
			l.index[other] = j - 1
		}
	}
}

// Entries returns all entries. The caller may keep the slice.
func (l *Inventory) Entries() []managedresource.ManagedResourceStatus { return slices.Clone(l.entries) }

// Without returns the entries of objects other than the given ones.
func (l *Inventory) Without(wanted map[object.Key]bool) []managedresource.ManagedResourceStatus {
	var others []managedresource.ManagedResourceStatus
	for _, e := range l.entries {
		if !wanted[object.KeyOfReference(e.Resource)] {
			others = append(others, e)
		}
	}
	return others
}
