package lock

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/host/internal/replica"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var (
	_ cache.ResourceEventHandler = (*Locker)(nil)
	_ replica.Listener           = (*Locker)(nil)
)

// OnAdd implements cache.ResourceEventHandler.
func (l *Locker) OnAdd(obj any, _ bool) {
	if object, ok := obj.(*v1alpha1.SyncObject); ok {
		if key, ok := keyOf(l.prefix, object); ok {
			l.observe(key, recordOf(key, object))
		}
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (l *Locker) OnUpdate(_, obj any) { l.OnAdd(obj, false) }

// OnDelete implements cache.ResourceEventHandler.
func (l *Locker) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if object, ok := obj.(*v1alpha1.SyncObject); ok {
		if key, ok := keyOf(l.prefix, object); ok {
			l.gone(key, objectName(l.prefix, key), object.UID)
		}
	}
}

// observe takes note of a lock as it is, or was at some time.
func (l *Locker) observe(key Key, now record) {
	name := objectName(l.prefix, key)
	l.mu.Lock()
	if before, known := l.records[name]; known && !newer(now.version, before.version) {
		l.mu.Unlock()
		return
	}
	l.records[name] = now
	lost := l.held[key.owner()]
	if lost != nil && (lost.name != name || lost.releasing || l.isOurs(now) || !l.lose(lost, "another one has taken it", now)) {
		lost = nil
	}
	waiting, freed := l.waiting[name]
	freed = freed && l.available(now)
	if left := l.stale[key.owner()]; left == key && l.held[key.owner()] == nil {
		if l.isOurs(now) {
			waiting, freed = key, true // nobody here knows of it
		} else {
			delete(l.stale, key.owner())
		}
	}
	if freed {
		delete(l.waiting, name)
	}
	l.mu.Unlock()
	l.tell(lost, freed, waiting)
}

// gone takes note that a SyncObject was deleted. uid is empty if it is not known which one of the name.
func (l *Locker) gone(key Key, name types.NamespacedName, uid types.UID) {
	l.mu.Lock()
	before, known := l.records[name]
	if known && uid != "" && before.uid != uid { // there is another one in its place
		l.mu.Unlock()
		return
	}
	delete(l.records, name)
	l.last.note(name, before)
	lost := l.held[key.owner()]
	if lost != nil && (lost.name != name || lost.noObject || lost.releasing || !l.lose(lost, "its object was deleted", record{})) {
		lost = nil
	}
	waiting, freed := l.waiting[name]
	delete(l.waiting, name)
	l.mu.Unlock()
	l.tell(lost, freed, waiting)
}

func (l *Locker) tell(lost *Lock, freed bool, waiting Key) {
	if lost != nil {
		l.listener.Lost(lost.key)
	}
	if freed {
		l.listener.Freed(waiting)
	}
}

// lose ends a lock that is not held any more; false if it has ended already.
func (l *Locker) lose(lock *Lock, why string, now record) bool {
	if l.held[lock.key.owner()] != lock {
		return false
	}
	l.drop(lock)
	l.statsOf(lock.key.Plugin).Lost++
	l.waiting[lock.name] = lock.key
	if l.isOurs(l.records[lock.name]) {
		l.stale[lock.key.owner()] = lock.key
	}
	l.log.Warn("lost a lock", "lock", lock.name.String(), "deployitem", lock.key.Item.String(), "why", why,
		"holder", now.podName, "process", now.process)
	return true
}

// ReplicaDied implements replica.Listener: the locks of the dead can be had.
func (l *Locker) ReplicaDied(podName string) {
	l.mu.Lock()
	var freed []Key
	for name, known := range l.records {
		if known.podName == podName && l.held[known.key.owner()] == nil && l.available(known) {
			freed = append(freed, known.key)
			delete(l.waiting, name)
		}
	}
	l.mu.Unlock()
	for _, key := range freed {
		l.listener.Freed(key)
	}
	l.freeWaiting(func(name types.NamespacedName) bool {
		last, known := l.last.get(name)
		return known && last.podName == podName && l.records[name].version == ""
	})
}

// ReplicasChanged implements replica.Listener: locks without an object are a matter of the replica that comes first for the item.
func (l *Locker) ReplicasChanged() {
	l.loseAll("another replica comes first now", func(lock *Lock) bool {
		return lock.noObject && !l.goesWithout(lock.name, lock.key)
	})
	// Those who cannot have an object may be for this replica now.
	l.freeWaiting(func(name types.NamespacedName) bool { return l.records[name].version == "" })
}

// Lapsed implements replica.Listener: others may take this replica for dead.
func (l *Locker) Lapsed() {
	l.loseAll("this replica has not been able to show that it is alive", func(*Lock) bool { return true })
}

// Renewed implements replica.Listener.
func (l *Locker) Renewed() {
	l.freeWaiting(func(name types.NamespacedName) bool { return l.available(l.records[name]) })
}

func (l *Locker) loseAll(why string, which func(*Lock) bool) {
	l.mu.Lock()
	var lost []*Lock
	for _, lock := range l.held {
		if which(lock) && l.lose(lock, why, record{}) {
			lost = append(lost, lock)
		}
	}
	l.mu.Unlock()
	for _, lock := range lost {
		l.listener.Lost(lock.key)
	}
}

func (l *Locker) freeWaiting(which func(name types.NamespacedName) bool) {
	l.mu.Lock()
	var freed []Key
	for name, key := range l.waiting {
		if which(name) {
			freed = append(freed, key)
			delete(l.waiting, name)
		}
	}
	l.mu.Unlock()
	for _, key := range freed {
		l.listener.Freed(key)
	}
}

// Watch has the Locker hear of all SyncObjects, and blocks until it knows those that are there.
func (l *Locker) Watch(ctx context.Context, informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}) error {
	registration, err := informer.AddEventHandler(l)
	if err != nil {
		return fmt.Errorf("watch locks: %w", err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watch locks: %w", context.Cause(ctx))
	}
	return nil
}
