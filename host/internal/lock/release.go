package lock

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// releasers is the number of concurrent releases when the host stops.
const releasers = 16

// Keep ends the use of a lock, but not the lock: the job goes on later. Without a lock it does nothing.
func (l *Locker) Keep(ctx context.Context, plugin string, item types.NamespacedName) {
	l.mu.Lock()
	lock, closed := l.mine[owner{plugin, item}], l.closed
	if lock != nil {
		lock.inUse = false
	}
	l.mu.Unlock()
	if lock != nil && closed {
		l.releaseAtStop(ctx, lock.key)
	}
}

// Release releases the lock of an item, if it is held here or names this process. A key without a UID is for any item
// of the name. settled is the version of the item without further work; empty if there is none. After an error, call
// Release again; in between the lock can be acquired anew.
func (l *Locker) Release(ctx context.Context, key Key, settled string) error {
	l.mu.Lock()
	lock := l.mine[key.owner()]
	if lock == nil {
		l.mu.Unlock()
		return nil
	}
	lock.end()
	known := l.recorded(lock.key)
	names := l.isOurs(known) && !lock.noObject && (key.UID == "" || key.UID == lock.key.UID)
	if !names {
		delete(l.mine, key.owner())
	}
	l.mu.Unlock()
	if !names {
		return nil
	}
	key = lock.key
	object, err := l.write(ctx, key, known, "", settled)
	switch {
	case apierrors.IsNotFound(err):
		l.recordDeletion(key, known.ResourceVersion)
	case err != nil:
		l.mu.Lock()
		// The listener hears of the next event of the watch.
		l.waiting[key] = struct{}{}
		l.mu.Unlock()
		return fmt.Errorf("release lock %s: %w", l.nameOf(key), err)
	default:
		l.record(key, object)
	}
	return nil
}

// Forget ends the use of the lock of a deleted item. Cleaner deletes the object.
func (l *Locker) Forget(plugin string, item types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := owner{plugin, item}
	maps.DeleteFunc(l.waiting, func(key Key, _ struct{}) bool { return key.owner() == gone })
	if lock := l.mine[gone]; lock != nil {
		lock.end()
		delete(l.mine, gone)
	}
}

// Start blocks until ctx ends and then releases all locks: unused ones at once, the others when their calls end. No
// lock is taken afterwards.
func (l *Locker) Start(ctx context.Context) error {
	<-ctx.Done()
	var group errgroup.Group
	group.SetLimit(releasers)
	for _, key := range l.close() {
		group.Go(func() error {
			l.releaseAtStop(ctx, key)
			return nil
		})
	}
	return group.Wait()
}

// close prevents further acquisitions. It ends the held locks without use, and returns them.
func (l *Locker) close() (idle []Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, lock := range l.mine {
		if lock.held && !lock.inUse {
			lock.end()
			idle = append(idle, lock.key)
		}
	}
	return idle
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has locks.
func (l *Locker) NeedLeaderElection() bool { return false }

// releaseAtStop releases a lock of a stopping host. After a failure the lock is free at the end of this replica.
func (l *Locker) releaseAtStop(ctx context.Context, key Key) {
	if err := l.Release(ctx, key, ""); err != nil {
		l.options.Log.Warn("cannot release a lock", "error", err.Error())
		// The next reconcile of the item tries again.
		l.options.Listener.Freed(key)
	}
}
