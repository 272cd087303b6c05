package job

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

// maxConflicts bounds the attempts of a write after changes of the item that do not concern the job.
const maxConflicts = 20

// change changes an item before it is written.
type change = func(*v1alpha1.DeployItem)

// record is the item of a job, with all its writes. During a call two goroutines write.
type record struct {
	client *itemclient.Client
	// decision is that of the job while it runs; see wanted.
	decision contract.Decision
	now      func() time.Time
	// unknown gets an item that requests an unknown operation.
	unknown change
	lock    *lock.Lock // nil before it is acquired

	mu sync.Mutex
	// item is as the API server has it. Only the whole of it is replaced, so that copies may share its parts.
	item *v1alpha1.DeployItem
	// pending is to be added to the next write of the status; nil if the job is picked up, or not to be.
	pending *pickUp
}

// pickUp is the pick-up of a job.
type pickUp struct {
	begin change
	// done is called after the write.
	done func(ctx context.Context, item *v1alpha1.DeployItem)
}

// view returns the item as the next write of the status makes it. It must not be changed.
func (r *record) view() *v1alpha1.DeployItem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locked()
}

// locked is view with mu held.
func (r *record) locked() *v1alpha1.DeployItem {
	item := *r.item
	if r.pending != nil {
		item.Status = *r.item.Status.DeepCopy()
		r.pending.begin(&item)
	}
	return &item
}

// pickUpWith has the next write of the status pick the job up.
func (r *record) pickUpWith(p *pickUp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = p
}

// isPending reports whether the job is not picked up yet.
func (r *record) isPending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending != nil
}

// writeOnce writes a change of the status, and the pick-up if it is pending.
func (r *record) writeOnce(ctx context.Context, c change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeLocked(ctx, c)
}

func (r *record) writeLocked(ctx context.Context, c change) error {
	p := r.pending
	if p == nil {
		return r.client.UpdateStatus(ctx, r.item, c)
	}
	err := r.client.UpdateStatus(ctx, r.item, func(item *v1alpha1.DeployItem) {
		p.begin(item)
		c(item)
	})
	if err != nil {
		return err
	}
	r.pending = nil
	if r.lock != nil { // a job that is queued has none
		r.lock.SetFenced()
	}
	p.done(ctx, r.item)
	return nil
}

// write writes a change of the status as long as the lock is held and the job is wanted.
func (r *record) write(ctx context.Context, c change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retry(ctx, func() error { return r.writeLocked(ctx, c) }, r.wanted)
}

// save is write for what the plugin relies on: the item is known to have it afterwards.
func (r *record) save(ctx context.Context, c change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.item.ResourceVersion
	err := r.retry(ctx, func() error { return r.writeLocked(ctx, c) }, r.wanted)
	if err != nil || r.item.ResourceVersion != before {
		return err
	}
	return r.readAgain(ctx, r.wanted) // nothing was written, and what is known may be outdated
}

// keep writes a change for a job that is not wanted any more, unless the provider status has changed.
func (r *record) keep(ctx context.Context, c change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retry(ctx, func() error { return r.client.UpdateStatus(ctx, r.item, c) }, r.sameDeployed)
}

func (r *record) addFinalizer(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retry(ctx, func() error { return r.client.AddFinalizer(ctx, r.item) }, r.wanted)
}

func (r *record) removeFinalizer(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retry(ctx, func() error { return r.client.RemoveFinalizer(ctx, r.item) }, r.wanted)
}

// check returns itemclient.ErrOutdated if another client has changed the item and the job is not wanted any more.
func (r *record) check(ctx context.Context, changes Changes) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changes.IsCurrent(ctx, r.item) || ctx.Err() != nil { // ctx ends with the call
		return nil
	}
	return r.readAgain(ctx, r.wanted)
}

// retry does a write. After a conflict it reads the item, and does the write again if it is still wanted.
func (r *record) retry(
	ctx context.Context, write func() error, wanted func(fresh *v1alpha1.DeployItem) bool,
) error {
	for range maxConflicts {
		if r.lockLost() {
			return itemclient.ErrOutdated
		}
		err := write()
		// A pick-up is not done again: another one may have been faster.
		if !errors.Is(err, itemclient.ErrOutdated) || r.pending != nil {
			return err
		}
		if err := r.readAgain(ctx, wanted); err != nil {
			return err
		}
	}
	return itemclient.ErrOutdated
}

func (r *record) lockLost() bool {
	select {
	case <-r.lock.Lost():
		return true
	default:
		return false
	}
}

// readAgain reads the item again. The error is itemclient.ErrOutdated if it is not wanted any more, or the lock is lost.
func (r *record) readAgain(ctx context.Context, wanted func(fresh *v1alpha1.DeployItem) bool) error {
	var fresh *v1alpha1.DeployItem
	err := itemclient.Bounded(ctx, func(ctx context.Context) (err error) {
		fresh, err = r.client.Read(ctx, client.ObjectKeyFromObject(r.item))
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
	if err := itemclient.Bounded(ctx, r.lock.Verify); errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	} else if err != nil {
		return err
	}
	if contract.UnknownOperation(fresh) != contract.UnknownOperation(r.item) {
		r.unknown(fresh)
	}
	*r.item = *fresh
	return nil
}

// wanted reports whether the job goes on after a change by another client: the job, the deployer, the provider status
// that the plugin goes on with, and the decision are the same.
func (r *record) wanted(fresh *v1alpha1.DeployItem) bool {
	before, after := &r.locked().Status, &fresh.Status
	return r.sameDeployed(fresh) &&
		after.JobID == before.JobID && after.Deployer == before.Deployer &&
		after.LastReconcileTime.Equal(before.LastReconcileTime) &&
		r.decision.Same(contract.Decide(fresh, r.now()))
}

func (r *record) sameDeployed(fresh *v1alpha1.DeployItem) bool {
	return fresh.UID == r.item.UID && reflect.DeepEqual(fresh.Status.ProviderStatus, r.item.Status.ProviderStatus)
}
