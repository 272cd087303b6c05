package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// writeTimeout bounds a write. The caller's context does not, so that a replica that shuts down can still write the
// outcome of its last calls.
const writeTimeout = 15 * time.Second

// errOutdated: the item is not the one that was decided on any more; decide again.
var errOutdated = errors.New("the deploy item has changed meanwhile")

// writer patches deploy items: only the fields that have changed, so that fields that our types do not know survive,
// and on condition that the resourceVersion is still the one that the patch was computed from.
type writer struct {
	client client.Client
}

// status changes the status of an item, and writes the difference if there is one. Afterwards item is what the API
// server has; after an error it is unchanged. The error is errOutdated after a conflict, or if the item is gone.
func (w *writer) status(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	return write(ctx, item, change, onlyStatus, func(ctx context.Context, o client.Object, patch client.Patch) error {
		return w.client.Status().Patch(ctx, o, patch)
	})
}

// metadata changes the metadata of an item, as status does the status.
func (w *writer) metadata(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	return write(ctx, item, change, onlyMetadata, func(ctx context.Context, o client.Object, patch client.Patch) error {
		return w.client.Patch(ctx, o, patch)
	})
}

// addFinalizer adds Landscaper's finalizer if it is missing.
func (w *writer) addFinalizer(ctx context.Context, item *v1alpha1.DeployItem) error {
	return w.metadata(ctx, item, func(item *v1alpha1.DeployItem) { controllerutil.AddFinalizer(item, v1alpha1.Finalizer) })
}

// removeFinalizer removes Landscaper's finalizer if it is there. If it was the last one, the item is gone afterwards.
func (w *writer) removeFinalizer(ctx context.Context, item *v1alpha1.DeployItem) error {
	return w.metadata(ctx, item, func(item *v1alpha1.DeployItem) {
		controllerutil.RemoveFinalizer(item, v1alpha1.Finalizer)
	})
}

// write sends the difference that change makes in a part of item, and sets item to what the API server returns.
func write(
	ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem),
	part func(*v1alpha1.DeployItem) *v1alpha1.DeployItem, send func(context.Context, client.Object, client.Patch) error,
) error {
	after, before := item.DeepCopy(), part(item)
	change(after)
	before.ResourceVersion = "" // so that the patch has that of the item, as its condition
	patch, err := client.MergeFrom(before).Data(part(after))
	if err != nil {
		return fmt.Errorf("compute patch: %w", err)
	}
	if string(patch) == fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, item.ResourceVersion) {
		return nil // nothing has changed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = send(ctx, after, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errOutdated
	}
	if isRefusal(err) {
		size, _ := json.Marshal(after) // for people: without it the error says the rest
		return &refusedError{bytes: len(size), err: err}
	}
	if err != nil {
		return notOfJob(fmt.Errorf("write deploy item: %w", err))
	}
	*item = *withoutManagers(after)
	return nil
}

// refusedError says that the API server will not take a deploy item as it would be.
type refusedError struct {
	bytes int // of the deploy item
	err   error
}

// Error returns a text for the user.
func (e *refusedError) Error() string {
	return fmt.Sprintf("the API server refuses the deploy item, which would have %d bytes: %v", e.bytes, e.err)
}

// Unwrap returns the answer of the API server.
func (e *refusedError) Unwrap() error { return e.err }

// isRefusal reports whether the API server would refuse the same write again. That an object is too large for etcd is an
// internal error of the API server, which nothing but its text tells from others.
func isRefusal(err error) bool {
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	return apierrors.IsInternalError(err) && slices.ContainsFunc([]string{
		"request is too large", "trying to send message larger than max",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// withoutManagers removes from an item that was read the note of who has set which field. Nobody here needs it, and it
// may be larger than all the rest.
func withoutManagers(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	item.ManagedFields = nil
	return item
}

func onlyStatus(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: item.ResourceVersion}, Status: item.Status,
	}
}

func onlyMetadata(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{ObjectMeta: item.ObjectMeta}
}

// notOfJob keeps the timeout of a request from being taken for that of the job.
func notOfJob(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

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
			return errOutdated
		}
		err := write()
		if !errors.Is(err, errOutdated) || j.stored != nil {
			return err
		}
		if err := j.readAgain(ctx, wanted); err != nil {
			return err
		}
	}
	return errOutdated
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	fresh := &v1alpha1.DeployItem{}
	err := j.r.live.Get(ctx, keyOf(j.item), fresh)
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	if err != nil {
		return notOfJob(fmt.Errorf("read deploy item: %w", err))
	}
	if !wanted(fresh) {
		return errOutdated
	}
	if err := j.lock.Verify(ctx); errors.Is(err, lock.ErrLost) {
		return errOutdated
	} else if err != nil {
		return notOfJob(err)
	}
	if contract.UnknownOperation(fresh) != contract.UnknownOperation(j.item) {
		j.r.reportUnknownOperation(fresh)
	}
	*j.item = *withoutManagers(fresh)
	return nil
}
