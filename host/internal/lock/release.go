package lock

import (
	"context"
	"fmt"

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
		l.releaseIdle(ctx, []*Lock{lock})
	}
}

// Release gives the lock of an item back, if it is held here or names this process. The key's UID may be empty for
// whichever item of the name. settled is the version of the item at which there is nothing to do; empty if that is not
// known. After a space it may have a note for those who come next; see Left. After an error Release is to be called
// again; should the lock be wanted again before that, it is taken anew.
func (l *Locker) Release(ctx context.Context, key Key, settled string) error {
	l.mu.Lock()
	lock := l.mine[key.owner()]
	if lock != nil && key.UID != "" && lock.key.UID != key.UID { // of an item that is gone
		lock.end()
		delete(l.mine, key.owner())
		lock = nil
	}
	l.mu.Unlock()
	if lock == nil {
		return nil
	}
	return l.release(ctx, lock, settled)
}

// release ends the use of a lock and makes it nobody's, if it still names this process.
func (l *Locker) release(ctx context.Context, lock *Lock, settled string) error {
	l.mu.Lock()
	if l.mine[lock.key.owner()] != lock { // it was taken anew since, and that one may be in use
		l.mu.Unlock()
		return nil
	}
	lock.end()
	known := l.known(lock.key)
	if lock.noObject {
		delete(l.mine, lock.key.owner())
	}
	l.mu.Unlock()
	if lock.noObject || !l.isOurs(known) {
		return nil
	}
	object, err := l.write(ctx, lock.key, known, "", settled)
	switch {
	case apierrors.IsNotFound(err):
		l.gone(lock.key, known.ResourceVersion)
	case err != nil:
		l.mu.Lock()
		l.waiting[lock.key] = struct{}{} // what the watch shows next is to be heard
		l.mu.Unlock()
		return fmt.Errorf("release lock %s: %w", l.nameOf(lock.key), err)
	default:
		l.observe(lock.key, object)
	}
	return nil
}

// Forget ends the use of the lock of an item that is gone. The lock stays as it is, for nobody can need it.
func (l *Locker) Forget(plugin string, item types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := owner{plugin, item}
	for key := range l.waiting {
		if key.owner() == gone {
			delete(l.waiting, key)
		}
	}
	if lock := l.mine[gone]; lock != nil {
		lock.end()
		delete(l.mine, gone)
	}
}

// ReleaseAll gives back the locks of a plugin that are not in use, because it serves nothing here any more; those in
// use follow with their calls.
func (l *Locker) ReleaseAll(ctx context.Context, plugin string) {
	l.releaseIdle(ctx, l.idle(func(lock *Lock) bool { return lock.key.Plugin == plugin }))
}

// Start gives back all locks when ctx ends: at once those that are not in use, the others as soon as their calls end.
// It blocks until then. No lock is taken afterwards.
func (l *Locker) Start(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.releaseIdle(ctx, l.idle(func(*Lock) bool { return true }))
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has locks.
func (l *Locker) NeedLeaderElection() bool { return false }

// idle returns locks that are held and not in use. Their use has ended: whoever wants one of them takes it anew.
func (l *Locker) idle(which func(*Lock) bool) (idle []*Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range l.mine {
		if lock.state == held && !lock.inUse && which(lock) {
			lock.end()
			idle = append(idle, lock)
		}
	}
	return idle
}

// releaseIdle gives back locks that nobody waits for here. What is not given back is free when this replica is gone.
func (l *Locker) releaseIdle(ctx context.Context, idle []*Lock) {
	var group errgroup.Group
	group.SetLimit(releasers)
	for _, lock := range idle {
		group.Go(func() error {
			if err := l.release(ctx, lock, ""); err != nil {
				l.options.Log.Warn("a lock was not given back", "error", err.Error())
				l.options.Listener.Freed(lock.key) // who looks at the item tries again
			}
			return nil
		})
	}
	_ = group.Wait()
}
