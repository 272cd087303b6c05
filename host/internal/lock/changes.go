package lock

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

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
	if object, ok := object.(*v1alpha1.SyncObject); ok {
		if key, ok := keyOf(l.options.Prefix, object); ok {
			l.observe(key, object)
		}
	}
}

// Deleted takes note of the deletion of what the watch has shown.
func (l *Locker) Deleted(object any) {
	if object, ok := lastKnown(object).(*v1alpha1.SyncObject); ok {
		if key, ok := keyOf(l.options.Prefix, object); ok {
			l.gone(key, object.ResourceVersion)
		}
	}
}

// lastKnown returns what was known of a deleted object last; the watch may have missed the deletion.
func lastKnown(object any) any {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return object
}

// observe takes note of a lock as it is, or was at some time.
func (l *Locker) observe(key Key, now *v1alpha1.SyncObject) {
	l.mu.Lock()
	if before := l.records[key]; before != nil && !newer(now.ResourceVersion, before.ResourceVersion) {
		l.mu.Unlock()
		return
	}
	l.records[key] = now
	l.apply(key, now, "another one has taken it")
}

// gone takes note that a SyncObject was deleted. version is one that it had.
func (l *Locker) gone(key Key, version string) {
	l.mu.Lock()
	before := l.records[key]
	if before == nil || newer(before.ResourceVersion, version) { // there is another one in its place
		l.mu.Unlock()
		return
	}
	if before.Spec.PodName != "" {
		l.last.Add(key, before, lastTime)
	}
	delete(l.records, key)
	l.apply(key, &v1alpha1.SyncObject{}, "its object was deleted")
}

// apply draws the conclusions from what is known of a lock now. It unlocks the Locker, and tells the listener.
func (l *Locker) apply(key Key, now *v1alpha1.SyncObject, why string) {
	lock, lost := l.mine[key.owner()], false
	switch {
	case lock == nil && l.isOurs(now): // a request had no answer: the lock is to be taken anew, or given back
		lock = &Lock{locker: l, key: key, state: over}
		l.mine[key.owner()] = lock
		l.waiting[key] = struct{}{}
	case lock == nil || lock.key != key || lock.noObject || l.isOurs(now):
	case lock.state == held:
		lost = true
		l.lose(lock, why, now)
		delete(l.mine, key.owner())
	case lock.state == over:
		delete(l.mine, key.owner())
	}
	_, freed := l.waiting[key]
	taken := lock != nil && lock.key == key && lock.state == taking // what comes of that is told by the request
	freed = freed && !taken && l.available(now)
	if freed {
		delete(l.waiting, key)
	}
	l.mu.Unlock()
	if lost {
		l.options.Listener.Lost(key)
	}
	if freed {
		l.options.Listener.Freed(key)
	}
}

// lose ends a lock that is not held any more. The listener is still to be told.
func (l *Locker) lose(lock *Lock, why string, now *v1alpha1.SyncObject) {
	lock.end()
	l.waiting[lock.key] = struct{}{}
	l.options.Metrics.Lost.WithLabelValues(lock.key.Plugin).Inc()
	l.options.Log.Warn("lost a lock", "lock", l.nameOf(lock.key).String(), "deployitem", lock.key.Item.String(),
		"why", why, "holder", now.Spec.PodName, "process", processOf(now))
}

// ReplicasChanged is called when others have died or come, or this replica has lapsed or is valid again: a replica
// that cannot show that it is alive loses its locks, and the locks of the dead can be had.
func (l *Locker) ReplicasChanged() {
	var lost, freed []Key
	l.mu.Lock()
	valid := l.options.Replicas.Valid()
	for _, lock := range l.mine {
		switch {
		case lock.state != held:
			continue
		case !valid:
			l.lose(lock, "this replica has not been able to show that it is alive", &v1alpha1.SyncObject{})
		case lock.noObject && l.Rank(lock.key) > 0 && !l.isOurs(l.lastOf(lock.key)):
			l.lose(lock, "another replica comes first now", &v1alpha1.SyncObject{})
		default:
			continue
		}
		lost = append(lost, lock.key)
	}
	for key := range l.waiting {
		if valid && l.available(l.known(key)) {
			freed = append(freed, key)
			delete(l.waiting, key)
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
