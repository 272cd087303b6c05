package lock

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Lock is a lock that is held. The zero value is one that cannot be lost and fences nobody off; see Off.
type Lock struct {
	locker *Locker // nil for one of Off
	key    Key
	name   types.NamespacedName
	since  time.Time
	// lost is closed when the lock is not held any more, for whatever reason.
	lost chan struct{}

	// The fields below are guarded by the Locker.

	inUse bool
	// releasing: its end in the watch is our own doing.
	releasing bool
	// doubtful: it may have been given back, because there was no answer to that. It is good for nothing but another try.
	doubtful bool
	// noObject: there is no SyncObject, and there can be none.
	noObject bool
	fenced   bool
}

// Lost is closed when the lock is not held any more. It is nil, so never closed, for one of Off.
func (k *Lock) Lost() <-chan struct{} { return k.lost }

// Fenced tells whether the item was changed under this lock. As long as it was not, whoever has had the lock before may write to the
// item without a conflict, so that nothing is to be begun.
func (k *Lock) Fenced() bool {
	if k.locker == nil {
		return true
	}
	k.locker.mu.Lock()
	defer k.locker.mu.Unlock()
	return k.fenced
}

// SetFenced notes that the item was changed under this lock.
func (k *Lock) SetFenced() {
	if k.locker != nil {
		k.locker.mu.Lock()
		defer k.locker.mu.Unlock()
		k.fenced = true
	}
}

// Verify asks the API server whether the lock is still held. The error is ErrLost if it is not, or that of the request.
//
// It makes a read of the item safe to write from: if the lock was still held after the read, who takes it later has to change the
// item after the read, too, and the write meets a conflict.
func (k *Lock) Verify(ctx context.Context) error {
	if k.locker == nil {
		return nil
	}
	select {
	case <-k.lost:
		return ErrLost
	default:
	}
	if k.noObject {
		return nil
	}
	object, err := k.locker.api.get(ctx, k.name)
	if err != nil {
		return fmt.Errorf("verify lock %s: %w", k.name, err)
	}
	if object == nil {
		k.locker.gone(k.key, k.name, "")
		return ErrLost
	}
	known := recordOf(k.key, object)
	k.locker.observe(k.key, known)
	if !k.locker.isOurs(known) {
		return ErrLost
	}
	return nil
}
