package lock

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Lock is a lock that was taken, or that names this process although it is not held here, as after a lapse or a request
// without an answer.
type Lock struct {
	locker *Locker // nil for one of Off
	key    Key
	// lost is closed when the lock is not held any more, for whatever reason.
	lost chan struct{}
	// fenced is used by those who work on the item, who are one at a time.
	fenced bool

	// The fields below are guarded by the Locker.

	// held: it can be worked under. inUse: somebody works under it, or is about to take it.
	held, inUse bool
	since       time.Time
	// noObject: there is no SyncObject, and there can be none.
	noObject bool
}

// end ends the use of a lock.
func (k *Lock) end() {
	if k.held {
		close(k.lost)
		k.locker.options.Metrics.Held.WithLabelValues(k.key.Plugin).Dec()
	}
	k.held, k.inUse = false, false
}

// Lost is closed when the lock is not held any more. It is nil, so never closed, for one of Off.
func (k *Lock) Lost() <-chan struct{} { return k.lost }

// Fenced reports whether the item was changed under this lock. As long as it was not, whoever has had the lock before
// may write to the item without a conflict, so that nothing is to be begun.
func (k *Lock) Fenced() bool { return k.fenced }

// SetFenced notes that the item was changed under this lock.
func (k *Lock) SetFenced() { k.fenced = true }

// Verify asks the API server whether the lock is still held. The error is ErrLost if it is not, or that of the
// request.
//
// It makes a read of the item safe to write from: if the lock was still held after the read, who takes it later has to
// change the item after the read, too, and the write meets a conflict.
func (k *Lock) Verify(ctx context.Context) error {
	l := k.locker
	if l == nil {
		return nil
	}
	l.mu.Lock()
	held, noObject, known := k.held, k.noObject, l.known(k.key)
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
	err := l.options.API.Get(ctx, l.nameOf(k.key), object)
	switch {
	case apierrors.IsNotFound(err):
		l.gone(k.key, known.ResourceVersion)
		return ErrLost
	case err != nil:
		return fmt.Errorf("verify lock %s: %w", l.nameOf(k.key), err)
	}
	l.observe(k.key, object)
	if !l.isOurs(object) {
		return ErrLost
	}
	return nil
}

// Off is what a host has in place of a Locker when it works without locks, because it is the only one. Everything is
// free, and nothing is written.
type Off struct{}

// Look tells that a lock is free.
func (Off) Look(Key, string) View { return Free }

// Holds tells that no lock is held.
func (Off) Holds(Key) bool { return false }

// Rank is 0.
func (Off) Rank(Key) int { return 0 }

// Serve does nothing.
func (Off) Serve([]string) {}

// Acquire returns a Lock that cannot be lost and fences nobody off.
func (Off) Acquire(context.Context, Key) (*Lock, error) { return &Lock{fenced: true}, nil }

// Keep does nothing.
func (Off) Keep(context.Context, string, types.NamespacedName) {}

// Release does nothing.
func (Off) Release(context.Context, Key, string) error { return nil }

// Forget does nothing.
func (Off) Forget(string, types.NamespacedName) {}
