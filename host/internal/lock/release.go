package lock

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// releasers is how many locks are given back at the same time when the host stops.
const releasers = 16

// Keep ends the use of a lock for now and holds it on, because the job goes on later. Nothing happens if none is held.
func (l *Locker) Keep(ctx context.Context, plugin string, item types.NamespacedName) {
	l.mu.Lock()
	lock, closed := l.mine[owner{plugin, item}], l.closed
	if lock != nil {
		lock.inUse = false
	}
	l.mu.Unlock()
	if lock != nil && closed {
		l.giveBack(ctx, lock.key)
	}
}

// Release gives the lock of an item back, if it is held here or names this process. The key's UID may be empty for
// whichever item of the name. settled is the version of the item at which there is nothing to do; empty if that is not
// known. After an error Release is to be called again; should the lock be wanted again before that, it is taken anew.
func (l *Locker) Release(ctx context.Context, key Key, settled string) error {
	l.mu.Lock()
	lock := l.mine[key.owner()]
	if lock == nil {
		l.mu.Unlock()
		return nil
	}
	lock.end()
	known := l.known(lock.key)
	names := l.isOurs(known) && !lock.noObject && (key.UID == "" || key.UID == lock.key.UID)
	if !names { // or it is of an item that is gone
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
		l.gone(key, known.ResourceVersion)
	case err != nil:
		l.mu.Lock()
		l.waiting[key] = struct{}{} // what the watch shows next is to be heard
		l.mu.Unlock()
		return fmt.Errorf("release lock %s: %w", l.nameOf(key), err)
	default:
		l.observe(key, object)
	}
	return nil
}

// Forget ends the use of the lock of an item that is gone. The lock stays as it is, for nobody can need it.
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

// Start gives back all locks when ctx ends: at once those that are not in use, the others as soon as their calls end.
// It blocks until then. No lock is taken afterwards.
func (l *Locker) Start(ctx context.Context) error {
	<-ctx.Done()
	var group errgroup.Group
	group.SetLimit(releasers)
	for _, key := range l.close() {
		group.Go(func() error {
			l.giveBack(ctx, key)
			return nil
		})
	}
	return group.Wait()
}

// close has no lock taken any more, and ends the use of those that are held and not in use, which it returns.
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

// giveBack gives back a lock of a host that stops. What is not given back is free when this replica is gone.
func (l *Locker) giveBack(ctx context.Context, key Key) {
	if err := l.Release(ctx, key, ""); err != nil {
		l.options.Log.Warn("a lock was not given back", "error", err.Error())
		l.options.Listener.Freed(key) // who looks at the item tries again
	}
}
