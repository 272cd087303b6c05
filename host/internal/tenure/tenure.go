// Package tenure writes a DeployItem while a replica holds its lock: from the lock to its release, or to its loss. See
// "Why they are safe" in docs/architecture.md.
package tenure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxConflicts bounds the attempts of a write after other changes of the item.
const maxConflicts = 20

// Change changes an item before it is written.
type Change = func(*v1alpha1.DeployItem)

// Tenure is the item of a job, with all its writes. Create it with New. Its methods may be called at the same time.
type Tenure struct {
	// Lock is the item's lock; nil before it is acquired.
	Lock     *lock.Lock
	client   *itemclient.Client
	decision contract.Decision
	now      func() time.Time
	unknown  Change

	mu sync.Mutex
	// item is as the API server has it. Only the whole of it is replaced, so that copies may share its parts.
	item *v1alpha1.DeployItem
	// pending is to be added to the next write of the status; nil if the job is picked up, or not to be.
	pending *PickUp
}

// New returns a tenure of an item, which belongs to it from now on. decision is that of the job while it runs. unknown
// gets an item with a new request for an unknown operation.
func New(
	client *itemclient.Client, item *v1alpha1.DeployItem, decision contract.Decision, now func() time.Time, unknown Change,
) *Tenure {
	return &Tenure{client: client, item: item, decision: decision, now: now, unknown: unknown}
}

// PickUp is the pick-up of a job.
type PickUp struct {
	Begin Change
	// Done is called after the write.
	Done func(ctx context.Context, item *v1alpha1.DeployItem)
}

// View returns the item as the next write of the status makes it. It must not be changed.
func (t *Tenure) View() *v1alpha1.DeployItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locked()
}

// locked is View with mu held.
func (t *Tenure) locked() *v1alpha1.DeployItem {
	item := *t.item
	if t.pending != nil {
		item.Status = *t.item.Status.DeepCopy()
		t.pending.Begin(&item)
	}
	return &item
}

// PickUpWith has the next write of the status pick the job up.
func (t *Tenure) PickUpWith(p *PickUp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = p
}

// IsPending reports whether the job is not picked up yet.
func (t *Tenure) IsPending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending != nil
}

// WriteOnce writes a change of the status, and the pick-up if it is pending.
func (t *Tenure) WriteOnce(ctx context.Context, c Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writeLocked(ctx, c)
}

func (t *Tenure) writeLocked(ctx context.Context, c Change) error {
	p := t.pending
	if p == nil {
		return t.client.UpdateStatus(ctx, t.item, c)
	}
	err := t.client.UpdateStatus(ctx, t.item, func(item *v1alpha1.DeployItem) {
		p.Begin(item)
		c(item)
	})
	if err != nil {
		return err
	}
	t.pending = nil
	if t.Lock != nil { // a job that is queued has none
		t.Lock.SetFenced()
	}
	p.Done(ctx, t.item)
	return nil
}

// Write writes a change of the status as long as the lock is held and the job is wanted.
func (t *Tenure) Write(ctx context.Context, c Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retry(ctx, func() error { return t.writeLocked(ctx, c) }, t.wanted)
}

// Save is Write for a change on which the plugin relies: the item is known to have it afterwards.
func (t *Tenure) Save(ctx context.Context, c Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.item.ResourceVersion
	err := t.retry(ctx, func() error { return t.writeLocked(ctx, c) }, t.wanted)
	if err != nil || t.item.ResourceVersion != before {
		return err
	}
	return t.readAgain(ctx, t.wanted) // nothing was written, and the known item may be outdated
}

// Keep writes a change although the job is not wanted any more, unless the provider status has changed.
func (t *Tenure) Keep(ctx context.Context, c Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retry(ctx, func() error { return t.client.UpdateStatus(ctx, t.item, c) }, t.sameDeployed)
}

// AddFinalizer adds Landscaper's finalizer.
func (t *Tenure) AddFinalizer(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retry(ctx, func() error { return t.client.AddFinalizer(ctx, t.item) }, t.wanted)
}

// RemoveFinalizer removes Landscaper's finalizer.
func (t *Tenure) RemoveFinalizer(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retry(ctx, func() error { return t.client.RemoveFinalizer(ctx, t.item) }, t.wanted)
}

// Check returns itemclient.ErrOutdated if another client has changed the item and the job is not wanted any more.
// isCurrent reports whether there is no newer version of the item.
func (t *Tenure) Check(ctx context.Context, isCurrent func(context.Context, *v1alpha1.DeployItem) bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isCurrent(ctx, t.item) || ctx.Err() != nil { // ctx ends with the call
		return nil
	}
	return t.readAgain(ctx, t.wanted)
}

// retry does a write. After a conflict it reads the item, and does the write again if it is still wanted.
func (t *Tenure) retry(
	ctx context.Context, write func() error, wanted func(fresh *v1alpha1.DeployItem) bool,
) error {
	for range maxConflicts {
		if t.IsLost() {
			return itemclient.ErrOutdated
		}
		err := write()
		// A pick-up is not done again: another one may have been faster.
		if !errors.Is(err, itemclient.ErrOutdated) || t.pending != nil {
			return err
		}
		if err := t.readAgain(ctx, wanted); err != nil {
			return err
		}
	}
	return itemclient.ErrOutdated
}

// IsLost reports whether the lock is lost.
func (t *Tenure) IsLost() bool {
	select {
	case <-t.Lock.Lost():
		return true
	default:
		return false
	}
}

// readAgain reads the item again. The error is itemclient.ErrOutdated if it is not wanted any more, or the lock is
// lost.
func (t *Tenure) readAgain(ctx context.Context, wanted func(fresh *v1alpha1.DeployItem) bool) error {
	var fresh *v1alpha1.DeployItem
	err := itemclient.Bounded(ctx, func(ctx context.Context) (err error) {
		fresh, err = t.client.Read(ctx, client.ObjectKeyFromObject(t.item))
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return itemclient.ErrOutdated
	case err != nil:
		return fmt.Errorf("read deploy item: %w", err)
	case !wanted(fresh):
		return itemclient.ErrOutdated
	}
	// The lock is read after the item: in the reverse order the next holder could write in between.
	if err := itemclient.Bounded(ctx, t.Lock.Verify); errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	} else if err != nil {
		return err
	}
	if contract.UnknownOperation(fresh) != contract.UnknownOperation(t.item) {
		t.unknown(fresh)
	}
	*t.item = *fresh
	return nil
}

// wanted reports whether the job goes on after a change by another client: the job, the deployer, the provider status
// that the plugin goes on with, and the decision are the same.
func (t *Tenure) wanted(fresh *v1alpha1.DeployItem) bool {
	before, after := &t.locked().Status, &fresh.Status
	return t.sameDeployed(fresh) &&
		after.JobID == before.JobID && after.Deployer == before.Deployer &&
		after.LastReconcileTime.Equal(before.LastReconcileTime) &&
		// The pick-up would name a spec that the plugin does not have.
		(t.pending == nil || fresh.Generation == t.item.Generation) &&
		t.decision.Same(contract.Decide(fresh, t.now()))
}

func (t *Tenure) sameDeployed(fresh *v1alpha1.DeployItem) bool {
	return fresh.UID == t.item.UID && reflect.DeepEqual(fresh.Status.ProviderStatus, t.item.Status.ProviderStatus)
}
