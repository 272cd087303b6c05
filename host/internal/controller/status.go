package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// writeTimeout bounds a write. It is not the caller's context that does, so that a replica that shuts down can still
// write down what has come of its last calls.
const writeTimeout = 15 * time.Second

// errOutdated: the item is no longer the one that was decided on; decide again.
var errOutdated = errors.New("the deploy item has changed meanwhile")

// writer changes deploy items. It patches the fields that changed and no others, so that fields which our types do
// not know survive, and each patch carries the resourceVersion of the item that it was computed from.
type writer struct {
	client client.Client
}

// status changes the status of an item and writes what changed; without a difference it writes nothing. Afterwards
// item is what the API server has; after an error it is what it was. The error is errOutdated if somebody else has
// written meanwhile, or if the item is gone.
func (w *writer) status(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	after := item.DeepCopy()
	change(after)
	if err := patch(ctx, item, after, w.client.Status().Patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// metadata changes the metadata of an item, as status does the status.
func (w *writer) metadata(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	after := item.DeepCopy()
	change(after)
	if err := patch(ctx, item, after, w.patchMetadata); err != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return nil
}

// addFinalizer adds Landscaper's finalizer if it is missing.
func (w *writer) addFinalizer(ctx context.Context, item *v1alpha1.DeployItem) error {
	return w.metadata(ctx, item, func(item *v1alpha1.DeployItem) {
		if !slices.Contains(item.Finalizers, v1alpha1.Finalizer) {
			item.Finalizers = append(item.Finalizers, v1alpha1.Finalizer)
		}
	})
}

// removeFinalizer removes Landscaper's finalizer if it is there. If it was the last one the item is gone afterwards.
func (w *writer) removeFinalizer(ctx context.Context, item *v1alpha1.DeployItem) error {
	return w.metadata(ctx, item, func(item *v1alpha1.DeployItem) {
		item.Finalizers = slices.DeleteFunc(item.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	})
}

type send func(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error

func (w *writer) patchMetadata(
	ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	return w.client.Patch(ctx, obj, patch)
}

// patch writes the difference between item and after, and makes item what the API server has then.
func patch(ctx context.Context, item, after *v1alpha1.DeployItem, send send) error {
	patch, err := difference(item, after)
	if err != nil || patch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = send(ctx, after, patch)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errOutdated
	}
	if err != nil {
		return err
	}
	*item = *after
	return nil
}

// difference is the JSON merge patch from one item to another with the resourceVersion as its condition; nil if they
// are equal.
func difference(before, after *v1alpha1.DeployItem) (client.Patch, error) {
	from, err := document(before)
	if err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	to, err := document(after)
	if err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	fields := mergePatch(from, to)
	if len(fields) == 0 {
		return nil, nil //nolint:nilnil // no difference is an ordinary case and no error
	}
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = before.ResourceVersion
	metadata["uid"] = before.UID
	fields["metadata"] = metadata
	// The schema requires observedGeneration once there is a status at all.
	if status, ok := fields["status"].(map[string]any); ok {
		status["observedGeneration"] = after.Status.ObservedGeneration
	}
	conditional, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, conditional), nil
}

// document is an item as JSON, with its numbers as they were written: those of a provider status may be large.
func document(item *v1alpha1.DeployItem) (map[string]any, error) {
	raw, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var fields map[string]any
	return fields, decoder.Decode(&fields)
}

// mergePatch is the JSON merge patch from one object to another. In such a patch null means absent, and so it does
// here.
func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range from {
		if value != nil && to[key] == nil {
			patch[key] = nil
		}
	}
	for key, value := range to {
		if value == nil || reflect.DeepEqual(from[key], value) {
			continue
		}
		before, wasObject := from[key].(map[string]any)
		after, isObject := value.(map[string]any)
		if !wasObject || !isObject {
			patch[key] = value
		} else if inner := mergePatch(before, after); len(inner) > 0 {
			patch[key] = inner
		}
	}
	return patch
}

// writeStatus writes a change of the status, and the note with it. The pick-up, which is the fence, does not go this way.
func (j *job) writeStatus(ctx context.Context, change func(*v1alpha1.DeployItem)) error {
	return j.write(ctx, func() error {
		return j.r.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) {
			if j.note != nil {
				j.note(item)
			}
			change(item)
		})
	})
}

// noteWith has a change of the status written together with what comes of the call; nil for none.
func (j *job) noteWith(change func(*v1alpha1.DeployItem)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note = change
}

// save writes a change of the status that has the provider status, on which the plugin relies. Where nothing changes
// the API server is only asked: the item was read from a cache, which may be behind.
func (j *job) save(ctx context.Context, change func(*v1alpha1.DeployItem)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	read := j.item.ResourceVersion
	err := j.retryOutdated(ctx, func() error { return j.r.writer.status(ctx, j.item, change) }, j.stillWanted)
	if err != nil || j.item.ResourceVersion != read {
		return err
	}
	return j.readAgain(ctx, j.stillWanted)
}

// sameProviderStatus reports whether an item has the provider status that is known.
func (j *job) sameProviderStatus(fresh *v1alpha1.DeployItem) bool {
	return reflect.DeepEqual(fresh.Status.ProviderStatus, j.item.Status.ProviderStatus)
}

// write does a write of a job that was picked up, as long as the lock is held. When it meets the write of somebody
// else, the item is read again and everything is decided again; if that comes to the same, the write is done to what
// is there now.
func (j *job) write(ctx context.Context, write func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.retryOutdated(ctx, write, j.stillWanted)
}

// stillWanted reports whether the job goes on as it is, after somebody else has changed the item: it is the same job,
// nobody else has picked it up or has written another provider status than the one that the plugin goes on with, and
// the decision is the same.
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
		if !errors.Is(err, errOutdated) {
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

// readAgain reads the item again while the job is under way. The error is errOutdated if it is not wanted any more or
// the lock was lost, or that of the read. The lock is read after the item: see lock.Lock.Verify.
func (j *job) readAgain(ctx context.Context, wanted func(fresh *v1alpha1.DeployItem) bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	fresh := &v1alpha1.DeployItem{}
	err := j.r.live.Get(ctx, keyOf(j.item), fresh)
	if apierrors.IsNotFound(err) {
		return errOutdated
	}
	if err != nil {
		return err
	}
	if !wanted(fresh) {
		return errOutdated
	}
	if err := j.lock.Verify(ctx); errors.Is(err, lock.ErrLost) {
		return errOutdated
	} else if err != nil {
		return err
	}
	*j.item = *fresh
	return nil
}
