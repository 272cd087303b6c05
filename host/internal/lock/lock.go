package lock

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Lock is a lock of this process. Its object may name the process although the lock is not held, as after a lapse or a
// request without an answer.
type Lock struct {
	// locker is nil for a lock of Off.
	locker *Locker
	key    Key
	// lost is closed at the end of the lock, for any reason.
	lost chan struct{}
	// fenced belongs to the reconcile of the item.
	fenced bool

	// The fields below are guarded by the Locker.

	// held: this process owns the lock. inUse: a reconcile is using or acquiring it.
	held, inUse bool
	since       time.Time
	// noObject: the namespace is being deleted and takes no SyncObject.
	noObject bool
	// before is the Pod of the dead holder; empty for a lock that was free.
	before string
}

// end ends the use of a lock.
func (lock *Lock) end() {
	if lock.held {
		close(lock.lost)
		lock.locker.options.Metrics.Held.WithLabelValues(lock.key.Plugin).Dec()
	}
	lock.held, lock.inUse = false, false
}

// Lost is closed when the lock is no longer held. It is nil, so never closed, for a lock of Off.
func (lock *Lock) Lost() <-chan struct{} { return lock.lost }

// Fenced reports whether the item was changed under this lock. Before that change, an earlier holder may still write
// the item without a conflict, so no call may begin.
func (lock *Lock) Fenced() bool { return lock.fenced }

// SetFenced records a change of the item under this lock.
func (lock *Lock) SetFenced() { lock.fenced = true }

// Before is the Pod of the dead holder before this one; empty for a lock that was free.
func (lock *Lock) Before() string { return lock.before }

// Verify reads the lock from the API server. The error is ErrLost if it is no longer held, or the error of the request.
//
// It makes a read of the item safe to write from: with the lock held after the read, a later holder changes the item
// after the read, too, and the write meets a conflict.
func (lock *Lock) Verify(ctx context.Context) error {
	l := lock.locker
	if l == nil {
		return nil
	}
	l.mu.Lock()
	held, noObject, known := lock.held, lock.noObject, l.recorded(lock.key)
	l.mu.Unlock()
	switch {
	case !held:
		return ErrLost
	case noObject:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	object := &v1alpha1.SyncObject{}
	err := l.options.API.Get(ctx, l.nameOf(lock.key), object)
	switch {
	case apierrors.IsNotFound(err):
		l.recordDeletion(lock.key, known.ResourceVersion)
		return ErrLost
	case err != nil:
		return fmt.Errorf("verify lock %s: %w", l.nameOf(lock.key), err)
	}
	l.record(lock.key, object)
	if !l.isOurs(object) {
		return ErrLost
	}
	return nil
}

// Off replaces a Locker in a host without other replicas. Every lock is free, and nothing is written.
type Off struct{}

// Look returns Free.
func (Off) Look(Key, string) View { return Free }

// Holds returns false.
func (Off) Holds(Key) bool { return false }

// Rank is 0.
func (Off) Rank(Key) int { return 0 }

// Serve does nothing.
func (Off) Serve([]string) {}

// Acquire returns a fenced Lock that is never lost.
func (Off) Acquire(context.Context, Key) (*Lock, error) { return &Lock{fenced: true}, nil }

// Keep does nothing.
func (Off) Keep(context.Context, string, types.NamespacedName) {}

// Release does nothing.
func (Off) Release(context.Context, Key, string) error { return nil }

// Forget does nothing.
func (Off) Forget(string, types.NamespacedName) {}
