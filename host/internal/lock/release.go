package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// releasers is how many locks are given back at the same time when the host stops.
const releasers = 16

// Keep ends the use of a lock for now and holds it on, because the job goes on later. Nothing happens if none is held.
func (l *Locker) Keep(ctx context.Context, plugin string, item types.NamespacedName) {
	l.mu.Lock()
	lock := l.held[owner{plugin, item}]
	closed := l.closed
	if lock != nil {
		lock.inUse = false
	}
	l.mu.Unlock()
	if lock != nil && closed {
		l.releaseLogged(ctx, lock)
	}
}

// Release gives the lock of an item back, if it is held here or named so. The key's UID may be empty for whichever item of the name.
// settled is the version of the item at which there is nothing to do; empty if that is not known. After a space it may have a note for
// those who come next; see Left. After an error Release is to be called again; should the lock be wanted again before that, it is taken anew.
func (l *Locker) Release(ctx context.Context, key Key, settled string) error {
	l.mu.Lock()
	lock := l.held[key.owner()]
	if lock != nil && key.UID != "" && lock.key.UID != key.UID { // of an item that is gone
		l.drop(lock)
		lock = nil
	}
	if left, ok := l.stale[key.owner()]; ok && lock == nil && key.UID == "" {
		key = left
	}
	name := objectName(l.prefix, key)
	if known := l.records[name]; lock == nil && l.isOurs(known) {
		waiting, waits := l.waiting[name]
		lock = l.hold(name, key) // left from a time in which it was counted as lost
		if waits {               // since then: whoever could not have it is to hear when that changes
			l.waiting[name] = waiting
		}
	}
	l.mu.Unlock()
	if lock == nil {
		return nil
	}
	return l.release(ctx, lock, settled)
}

// Forget ends the use of the lock of an item that is gone. The lock stays as it is, for nobody can need it.
func (l *Locker) Forget(plugin string, item types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.stale, owner{plugin, item})
	maps.DeleteFunc(l.waiting, func(_ types.NamespacedName, key Key) bool { return key.owner() == owner{plugin, item} })
	if lock := l.held[owner{plugin, item}]; lock != nil {
		l.drop(lock)
	}
}

// ReleaseAll gives back the locks of an item's plugin that are not in use, because it serves nothing here any more; those in use
// follow with their calls.
func (l *Locker) ReleaseAll(ctx context.Context, plugin string) {
	l.releaseIdle(ctx, func(lock *Lock) bool { return lock.key.Plugin == plugin })
}

// release gives a lock back. One that turns out to be lost is none any more.
func (l *Locker) release(ctx context.Context, lock *Lock, settled string) error {
	l.mu.Lock()
	known := l.records[lock.name]
	if l.held[lock.key.owner()] != lock || !lock.noObject && !l.isOurs(known) { // lost meanwhile
		l.drop(lock)
		l.mu.Unlock()
		return nil
	}
	lock.releasing = true
	l.mu.Unlock()

	var object *v1alpha1.SyncObject
	var err error
	if !lock.noObject {
		object, err = l.api.release(ctx, lock.key, known, settled)
	}
	if refused, err := l.released(lock, object, err); err != nil || !refused {
		return err
	}
	l.listener.Freed(lock.key)
	return nil
}

// released takes note of what has come of giving a lock back, and tells whether it was refused to somebody here meanwhile.
func (l *Locker) released(lock *Lock, object *v1alpha1.SyncObject, err error) (refused bool, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock.releasing = false
	if err != nil && !errors.Is(err, ErrLost) && l.isOurs(l.records[lock.name]) {
		lock.doubtful = true
		return false, fmt.Errorf("release lock %s: %w", lock.name, err)
	}
	l.drop(lock)
	if now := l.records[lock.name]; object != nil && newer(object.ResourceVersion, now.version) {
		l.records[lock.name] = recordOf(lock.key, object)
	}
	_, refused = l.waiting[lock.name]
	delete(l.waiting, lock.name)
	return refused, nil
}

// Start gives back all locks when ctx ends: at once those that are not in use, the others as soon as their calls end. It blocks until
// then. No lock is taken afterwards.
func (l *Locker) Start(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.releaseIdle(context.WithoutCancel(ctx), func(*Lock) bool { return true })
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has locks.
func (l *Locker) NeedLeaderElection() bool { return false }

// releaseIdle gives back locks that are not in use, several at a time.
func (l *Locker) releaseIdle(ctx context.Context, which func(*Lock) bool) {
	l.mu.Lock()
	var idle []*Lock
	for _, lock := range l.held {
		if !lock.inUse && which(lock) {
			lock.releasing = true // nobody is to use it meanwhile
			idle = append(idle, lock)
		}
	}
	l.mu.Unlock()
	locks := make(chan *Lock)
	var workers sync.WaitGroup
	for range min(releasers, len(idle)) {
		workers.Go(func() {
			for lock := range locks {
				l.releaseLogged(ctx, lock)
			}
		})
	}
	for _, lock := range idle {
		locks <- lock
	}
	close(locks)
	workers.Wait()
}

// releaseLogged gives a lock back that nobody waits for here. If that fails it is free when this replica is gone.
func (l *Locker) releaseLogged(ctx context.Context, lock *Lock) {
	if err := l.release(ctx, lock, ""); err != nil {
		l.log.Warn("a lock was not given back", "error", err.Error())
		l.listener.Freed(lock.key) // who looks at the item tries again
	}
}
