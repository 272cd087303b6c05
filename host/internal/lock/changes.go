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

// Watch has the Locker hear of all SyncObjects, and blocks until it knows those that are there.
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

// Seen takes note of what the watch shows, a SyncObject.
func (l *Locker) Seen(object any) {
	if key, object, ours := l.lockOf(object); ours {
		l.observe(key, object)
	}
}

// Deleted takes note of the deletion of what the watch has shown.
func (l *Locker) Deleted(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	if key, object, ours := l.lockOf(object); ours {
		l.gone(key, object.ResourceVersion)
	}
}

func (l *Locker) lockOf(object any) (key Key, syncObject *v1alpha1.SyncObject, ours bool) {
	if syncObject, ours = object.(*v1alpha1.SyncObject); ours {
		key, ours = keyOf(l.options.Prefix, syncObject)
	}
	return key, syncObject, ours
}

// observe takes note of a lock as it is, or was at some time.
func (l *Locker) observe(key Key, now *v1alpha1.SyncObject) {
	l.mu.Lock()
	if before := l.records[key]; before != nil && !contract.Newer(now.ResourceVersion, before.ResourceVersion) {
		l.mu.Unlock()
		return
	}
	l.records[key] = now
	l.conclude(key)
}

// gone takes note that a SyncObject was deleted. version is one that it had.
func (l *Locker) gone(key Key, version string) {
	l.mu.Lock()
	before := l.records[key]
	if before == nil || contract.Newer(before.ResourceVersion, version) { // there is another one in its place
		l.mu.Unlock()
		return
	}
	if before.Spec.PodName != "" {
		l.last.Add(key, before, lastTime)
	}
	delete(l.records, key)
	l.conclude(key)
}

// ReplicasChanged is called when others have died or come, or this replica has lapsed or is valid again: a replica
// that cannot show that it is alive loses its locks, and the locks of the dead can be had.
func (l *Locker) ReplicasChanged() {
	l.mu.Lock()
	keys := maps.Clone(l.waiting)
	for _, lock := range l.mine {
		keys[lock.key] = struct{}{}
	}
	l.conclude(slices.Collect(maps.Keys(keys))...)
}

// conclude finds out which locks are lost, and which can be had, from what is known now. It unlocks the Locker, and
// tells the listener: of a lock that can be had at each change until Look is called for it, since the listener may wait
// for replicas that come first and then leave or die.
func (l *Locker) conclude(keys ...Key) {
	var lost, freed []Key
	for _, key := range keys {
		if l.isLost(key) {
			lost = append(lost, key)
		}
		if _, waits := l.waiting[key]; waits && l.options.Replicas.Valid() && l.available(l.known(key)) {
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

// isLost reports whether a lock was held here until now and is not any more. It keeps in mine those that name this
// process.
func (l *Locker) isLost(key Key) (lost bool) {
	lock, known := l.mine[key.owner()], l.known(key)
	switch {
	case lock == nil && l.isOurs(known): // a request had no answer: the lock is to be taken anew, or given back
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
		return l.isOurs(l.known(lock.key))
	}
}

// lapsed reports whether the locks of this replica are lost because it cannot show that it is alive. With no other
// replica they are not: nobody could take them over. One that comes meanwhile fences, so that nothing of this one's
// calls is written any more.
func (l *Locker) lapsed() bool { return !l.options.Replicas.Valid() && !l.options.Replicas.Alone() }

func (l *Locker) whyLost(lock *Lock) string {
	switch {
	case l.lapsed():
		return "this replica has not been able to show that it is alive"
	case lock.noObject:
		return "another replica comes first now"
	case l.records[lock.key] == nil:
		return "its object was deleted"
	default:
		return "another one has taken it"
	}
}
