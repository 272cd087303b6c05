package lock

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Watch subscribes the Locker to all SyncObjects, and blocks until it has the existing ones.
func (l *Locker) Watch(ctx context.Context, informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: l.Seen, UpdateFunc: func(_, object any) { l.Seen(object) }, DeleteFunc: l.Deleted,
	})
	if err != nil {
		return fmt.Errorf("watch locks: %w", err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watch locks: %w", context.Cause(ctx))
	}
	return nil
}

// Seen records a SyncObject of the watch.
func (l *Locker) Seen(object any) {
	if key, object, ours := l.lockOf(object); ours {
		l.record(key, object)
	}
}

// Deleted records the deletion of a SyncObject.
func (l *Locker) Deleted(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	if key, object, ours := l.lockOf(object); ours {
		l.recordDeletion(key, object.ResourceVersion)
	}
}

func (l *Locker) lockOf(object any) (key Key, syncObject *v1alpha1.SyncObject, ours bool) {
	if syncObject, ours = object.(*v1alpha1.SyncObject); ours {
		key, ours = keyOf(l.options.Prefix, syncObject)
	}
	return key, syncObject, ours
}

// record records a SyncObject, unless a newer version is known.
func (l *Locker) record(key Key, now *v1alpha1.SyncObject) {
	l.mu.Lock()
	if before := l.records[key]; before != nil && !contract.Newer(now.ResourceVersion, before.ResourceVersion) {
		l.mu.Unlock()
		return
	}
	l.records[key] = now
	l.notify(key)
}

// recordDeletion records the deletion of a SyncObject. version is one of its versions.
func (l *Locker) recordDeletion(key Key, version string) {
	l.mu.Lock()
	before := l.records[key]
	if before == nil || contract.Newer(before.ResourceVersion, version) {
		// Another object has taken its place.
		l.mu.Unlock()
		return
	}
	if before.Spec.PodName != "" {
		l.last.Add(key, before, lastTime)
	}
	delete(l.records, key)
	l.notify(key)
}

// ReplicasChanged has to be called after the death or arrival of a replica, and when Valid has changed: a replica that
// is not valid loses its locks, and the locks of dead replicas become available.
func (l *Locker) ReplicasChanged() {
	l.mu.Lock()
	keys := maps.Clone(l.waiting)
	for _, lock := range l.mine {
		keys[lock.key] = struct{}{}
	}
	l.notify(slices.Collect(maps.Keys(keys))...)
}

// notify unlocks the Locker and tells the listener about lost and available locks.
func (l *Locker) notify(keys ...Key) {
	var lost, freed []Key
	for _, key := range keys {
		if l.updateHeld(key) {
			lost = append(lost, key)
		}
		// Each change reports an available lock again until the next Look: the listener may leave the lock to preferred
		// replicas, and they may leave or die.
		if _, waits := l.waiting[key]; waits && l.options.Replicas.Valid() && l.available(l.recorded(key)) {
			freed = append(freed, key)
		}
	}
	l.mu.Unlock()
	for _, key := range lost {
		l.options.Listener.Lost(key)
	}
	for _, key := range freed {
		l.options.Listener.Freed(key)
	}
}

// updateHeld brings l.mine into line with the record of a lock, and reports whether that ends a held lock. A lock stays
// in l.mine as long as its record names this process.
func (l *Locker) updateHeld(key Key) (lost bool) {
	lock, known := l.mine[key.owner()], l.recorded(key)
	switch {
	case lock == nil && l.isOurs(known):
		// A request had no answer: the lock is acquired anew, or released.
		l.mine[key.owner()] = &Lock{locker: l, key: key}
		l.waiting[key] = struct{}{}
		return false
	case lock == nil || lock.key != key || l.keeps(lock):
		return false
	case lock.held:
		lost = true
		lock.end()
		l.waiting[key] = struct{}{}
		l.options.Metrics.Lost.WithLabelValues(key.Plugin).Inc()
		l.options.Log.Warn("lost a lock", "lock", l.nameOf(key).String(), "deployitem", key.Item.String(),
			"why", l.whyLost(lock), "holder", known.Spec.PodName, "process", processOf(known))
	}
	if !lock.inUse && !l.isOurs(known) {
		delete(l.mine, key.owner())
	}
	return lost
}

// keeps reports whether this replica may hold a lock, as far as is known.
func (l *Locker) keeps(lock *Lock) bool {
	switch {
	case l.lapsed():
		return false
	case lock.noObject:
		return l.Rank(lock.key) == 0 || l.isOurs(l.lastOf(lock.key))
	default:
		return l.isOurs(l.recorded(lock.key))
	}
}

// lapsed reports whether the locks of this replica are lost because it is not valid. A replica without others keeps
// them: there is no replica to take them over. A replica that arrives meanwhile fences, and then no call of this one is
// written any more.
func (l *Locker) lapsed() bool { return !l.options.Replicas.Valid() && !l.options.Replicas.Alone() }

func (l *Locker) whyLost(lock *Lock) string {
	switch {
	case l.lapsed():
		return "this replica could not renew its Lease in time"
	case lock.noObject:
		return "another replica comes first now"
	case l.records[lock.key] == nil:
		return "its object was deleted"
	default:
		return "another replica has taken it"
	}
}
