package lock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Acquire takes a lock; a lock already held here costs no request. It is in use until Keep, Release or Forget. The
// error is ErrHeld for a lock of another replica, or else the error of a request.
func (l *Locker) Acquire(ctx context.Context, key Key) (*Lock, error) {
	lock, known, err := l.reserve(key)
	if err != nil || lock.lost != nil {
		return lock, err
	}
	object, err := l.take(ctx, key, known)
	if object != nil {
		l.record(key, object)
	}
	l.mu.Lock()
	lock.noObject = err == nil && object == nil
	if err == nil && l.keeps(lock) {
		l.hold(lock, known)
		l.mu.Unlock()
		return lock, nil
	}
	lock.end()
	l.waiting[key] = struct{}{}
	if l.recorded(key).ResourceVersion == known.ResourceVersion {
		// The watch will show the reason.
		l.mu.Unlock()
	} else {
		l.notify(key)
	}
	return nil, cmp.Or(err, ErrHeld)
}

// reserve returns a lock in use: an already held one, or a new one that is yet to be taken, with its SyncObject.
func (l *Locker) reserve(key Key) (*Lock, *v1alpha1.SyncObject, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, before := l.recorded(key), l.mine[key.owner()]
	switch {
	case !l.options.Replicas.Valid():
	case l.holds(key):
		before.inUse = true
		return before, known, nil
	case !l.closed && l.available(known):
		if before != nil {
			// It may belong to a former item of the same name.
			before.end()
		}
		lock := &Lock{locker: l, key: key, inUse: true}
		l.mine[key.owner()] = lock
		delete(l.waiting, key)
		return lock, known, nil
	}
	l.waiting[key] = struct{}{}
	return nil, nil, ErrHeld
}

// take makes this process the holder of a lock.
//
// A namespace under deletion takes no SyncObject, but its items still need their deletion. Then take returns no object,
// and the last holder of the lock keeps it without one. If that replica is dead, or there was none, the item's
// preferred replica has the lock. Two replicas may both assume so for a moment; their conditional writes keep that
// safe.
func (l *Locker) take(ctx context.Context, key Key, known *v1alpha1.SyncObject) (*v1alpha1.SyncObject, error) {
	if err := l.confirmDead(ctx, known); err != nil {
		return nil, err
	}
	object, err := l.write(ctx, key, known, l.options.Replicas.PodName(), "")
	switch {
	case err == nil:
		return object, nil
	case apierrors.IsNotFound(err) && known.ResourceVersion != "":
		l.recordDeletion(key, known.ResourceVersion)
		return nil, ErrHeld
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		l.options.Metrics.Conflicts.WithLabelValues(key.Plugin).Inc()
		return nil, ErrHeld
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, l.confirmDead(ctx, l.lastOf(key))
	default:
		return nil, fmt.Errorf("take lock %s: %w", l.nameOf(key), err)
	}
}

// hold marks a lock as held; before is its SyncObject before the acquisition.
func (l *Locker) hold(lock *Lock, before *v1alpha1.SyncObject) {
	lock.held, lock.since, lock.lost, lock.before = true, time.Now(), make(chan struct{}), ""
	l.options.Metrics.Held.WithLabelValues(lock.key.Plugin).Inc()
	if lock.noObject {
		return
	}
	l.options.Metrics.Acquired.WithLabelValues(lock.key.Plugin).Inc()
	if before.Spec.PodName != "" && !l.isOurs(before) {
		lock.before = before.Spec.PodName
		l.options.Metrics.TakenOver.WithLabelValues(lock.key.Plugin).Inc()
		l.options.Log.Info("took over the lock of a dead holder", "lock", l.nameOf(lock.key).String(),
			"deployitem", lock.key.Item.String(), "holder", before.Spec.PodName, "process", processOf(before))
	}
}

// confirmDead returns nil for a lock without a live holder other than this pod, and ErrHeld for the others.
func (l *Locker) confirmDead(ctx context.Context, known *v1alpha1.SyncObject) error {
	holder := known.Spec.PodName
	if holder == "" || holder == l.options.Replicas.PodName() {
		return nil
	}
	dead, err := l.options.Replicas.IsDead(ctx, holder, processOf(known))
	switch {
	case err != nil:
		return fmt.Errorf("find out whether a lock's holder %q is dead: %w", holder, err)
	case !dead:
		return ErrHeld
	}
	return nil
}

// lastOf returns the deleted SyncObject of a lock; an empty one if the lock was free.
func (l *Locker) lastOf(key Key) *v1alpha1.SyncObject {
	if last, ok := l.last.Get(key); ok {
		return last.(*v1alpha1.SyncObject) //nolint:forcetypeassert // nothing else is put there
	}
	return &v1alpha1.SyncObject{}
}

// write makes a pod the holder of a lock, in the name of this process; an empty name releases the lock. The write is
// conditional on the recorded version of the SyncObject.
func (l *Locker) write(
	ctx context.Context, key Key, known *v1alpha1.SyncObject, podName, settled string,
) (*v1alpha1.SyncObject, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	object := known.DeepCopy()
	object.Spec.PodName, object.Spec.LastUpdateTime = podName, v1alpha1.Now()
	delete(object.Annotations, AnnotationProcess)
	delete(object.Annotations, AnnotationSettled)
	if podName != "" {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, AnnotationProcess, l.options.Replicas.Process())
	}
	if settled != "" {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, AnnotationSettled, settled)
	}
	if known.ResourceVersion == "" {
		object.Namespace, object.Name = key.Item.Namespace, l.nameOf(key).Name
		object.Spec.Kind, object.Spec.Name = kindDeployItem, key.Item.Name
		object.Spec.Prefix = l.options.Prefix + key.Plugin
		return object, l.options.API.Create(ctx, object)
	}
	// Clear managedFields, which the watch does not show: only this controller writes locks, and it makes the write 20 %
	// cheaper.
	object.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	patch := client.MergeFromWithOptions(known, client.MergeFromWithOptimisticLock{})
	return object, l.options.API.Patch(ctx, object, patch)
}
