package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// writeStatus writes a change of the status, and the note with it.
func (j *job) writeStatus(ctx context.Context, change func(*v1alpha1.DeployItem)) error {
	return j.write(ctx, func() error {
		return j.changeStatus(ctx, func(item *v1alpha1.DeployItem) {
			if j.note != nil {
				j.note(item)
			}
			change(item)
		})
	})
}

// noteWith has a change of the status written together with the outcome of the call; nil for none.
func (j *job) noteWith(change func(*v1alpha1.DeployItem)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note = change
}

// save writes a change of the status on which the plugin relies. If there is no difference to write, the item is read:
// the one that is known may be outdated.
func (j *job) save(ctx context.Context, change func(*v1alpha1.DeployItem)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	read := j.item.ResourceVersion
	err := j.retryOutdated(ctx, func() error { return j.changeStatus(ctx, change) }, j.stillWanted)
	errors.As(err, &j.refused)
	if err != nil || j.item.ResourceVersion != read {
		return err
	}
	return j.readAgain(ctx, j.stillWanted)
}

// sameProviderStatus reports whether an item has the provider status that is known.
func (j *job) sameProviderStatus(fresh *v1alpha1.DeployItem) bool {
	return reflect.DeepEqual(fresh.Status.ProviderStatus, j.item.Status.ProviderStatus)
}

// write does a write of a job, as long as the lock is held. After a conflict the item is read and decided again; if the
// decision is the same, the write is retried. One that would pick the job up is not retried.
func (j *job) write(ctx context.Context, write func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.retryOutdated(ctx, write, j.stillWanted)
}

// stillWanted reports whether the job goes on after somebody else has changed the item: the job, the deployer, the
// provider status that the plugin goes on with, and the decision are the same.
func (j *job) stillWanted(fresh *v1alpha1.DeployItem) bool {
	before, after := &j.item.Status, &fresh.Status
	return fresh.UID == j.item.UID && j.sameProviderStatus(fresh) &&
		after.JobID == before.JobID && after.Deployer == before.Deployer &&
		after.LastReconcileTime.Equal(before.LastReconcileTime) &&
		j.decision.Same(contract.Decide(fresh, j.r.clock.Now()))
}

func (j *job) retryOutdated(
	ctx context.Context, write func() error, wanted func(fresh *v1alpha1.DeployItem) bool,
) error {
	for range maxConflicts {
		if j.lockLost() {
			return itemclient.ErrOutdated
		}
		err := write()
		if !errors.Is(err, itemclient.ErrOutdated) || j.stored != nil {
			return err
		}
		if err := j.readAgain(ctx, wanted); err != nil {
			return err
		}
	}
	return itemclient.ErrOutdated
}

func (j *job) lockLost() bool {
	select {
	case <-j.lock.Lost():
		return true
	default:
		return false
	}
}

// readAgain reads the item again during a job. The error is errOutdated if the job is not wanted any more or the lock
// was lost, or that of the read. The lock is read after the item; see lock.Lock.Verify.
func (j *job) readAgain(ctx context.Context, wanted func(fresh *v1alpha1.DeployItem) bool) error {
	var fresh *v1alpha1.DeployItem
	err := itemclient.Bounded(ctx, func(ctx context.Context) (err error) {
		fresh, err = j.r.items.Read(ctx, keyOf(j.item))
		return err
	})
	if apierrors.IsNotFound(err) {
		return itemclient.ErrOutdated
	}
	if err != nil {
		return fmt.Errorf("read deploy item: %w", err)
	}
	if !wanted(fresh) {
		return itemclient.ErrOutdated
	}
	if err := itemclient.Bounded(ctx, j.lock.Verify); errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	} else if err != nil {
		return err
	}
	if contract.UnknownOperation(fresh) != contract.UnknownOperation(j.item) {
		j.r.reportUnknownOperation(fresh)
	}
	*j.item = *fresh
	return nil
}
