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

// Acquire takes a lock; one that is held here already costs nothing. It is in use until Keep, Release or Forget. The
// error is ErrHeld if somebody else has it, or else that of a request.
func (l *Locker) Acquire(ctx context.Context, key Key) (*Lock, error) {
	lock, known, err := l.begin(key)
	if err != nil || lock.lost != nil {
		return lock, err
	}
	object, err := l.take(ctx, key, known)
	if object != nil {
		l.observe(key, object)
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
	if l.known(key).ResourceVersion == known.ResourceVersion { // the watch has yet to tell why
		l.mu.Unlock()
	} else {
		l.conclude(key)
	}
	return nil, cmp.Or(err, ErrHeld)
}

// begin returns the lock that is held already, which is in use then, or one to be taken, with what is known of it.
func (l *Locker) begin(key Key) (*Lock, *v1alpha1.SyncObject, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, before := l.known(key), l.mine[key.owner()]
	switch {
	case !l.options.Replicas.Valid():
	case l.holds(key):
		before.inUse = true
		return before, known, nil
	case !l.closed && l.available(known):
		if before != nil {
			before.end() // it may be of an item of the same name that is gone
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
// In a namespace that is being deleted no SyncObject can be created. Then take returns none, and the replica that held
// the lock last keeps it without one. If that replica is dead, or there was none, the item's preferred replica has the
// lock. Two replicas may both think so for a moment; their conditional writes keep that safe.
func (l *Locker) take(ctx context.Context, key Key, known *v1alpha1.SyncObject) (*v1alpha1.SyncObject, error) {
	if err := l.confirmDead(ctx, known); err != nil {
		return nil, err
	}
	object, err := l.write(ctx, key, known, l.options.Replicas.PodName(), "")
	switch {
	case err == nil:
		return object, nil
	case apierrors.IsNotFound(err) && known.ResourceVersion != "":
		l.gone(key, known.ResourceVersion)
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

// hold begins to hold a lock that was taken; before is how it was known then.
func (l *Locker) hold(lock *Lock, before *v1alpha1.SyncObject) {
	lock.held, lock.since, lock.lost = true, time.Now(), make(chan struct{})
	l.options.Metrics.Held.WithLabelValues(lock.key.Plugin).Inc()
	if lock.noObject {
		return
	}
	l.options.Metrics.Acquired.WithLabelValues(lock.key.Plugin).Inc()
	if before.Spec.PodName != "" && !l.isOurs(before) {
		l.options.Metrics.TakenOver.WithLabelValues(lock.key.Plugin).Inc()
		l.options.Log.Info("took the lock of a holder that is dead over", "lock", l.nameOf(lock.key).String(),
			"deployitem", lock.key.Item.String(), "holder", before.Spec.PodName, "process", processOf(before))
	}
}

// confirmDead returns nil if nobody else has a lock, or somebody dead, and ErrHeld if its holder is alive.
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

// lastOf returns a lock as it was when its object was deleted; an empty one if nobody held it then.
func (l *Locker) lastOf(key Key) *v1alpha1.SyncObject {
	if last, ok := l.last.Get(key); ok {
		return last.(*v1alpha1.SyncObject) //nolint:forcetypeassert // nothing else is put there
	}
	return &v1alpha1.SyncObject{}
}

// write makes a pod the holder of a lock, in the name of this process; an empty one leaves it without a holder. It is
// conditional on what is known of the SyncObject.
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
	if len(known.ManagedFields) > 0 { // nobody else writes locks; without the note of who did a write takes a fifth less
		object.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	}
	patch := client.MergeFromWithOptions(known, client.MergeFromWithOptimisticLock{})
	return object, l.options.API.Patch(ctx, object, patch)
}
