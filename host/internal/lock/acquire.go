package lock

import (
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
	if err != nil || lock.inUse {
		return lock, err
	}
	if err := l.confirmDead(ctx, known); err != nil {
		return nil, l.failed(lock, known, err)
	}
	object, err := l.write(ctx, key, known, l.options.Replicas.PodName(), "")
	switch {
	case err == nil:
		return l.taken(lock, known, object)
	case apierrors.IsNotFound(err) && known.ResourceVersion != "":
		l.gone(key, known.ResourceVersion)
		return nil, l.failed(lock, known, ErrHeld)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		l.options.Metrics.Conflicts.WithLabelValues(key.Plugin).Inc()
		return nil, l.failed(lock, known, ErrHeld)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return l.withoutObject(ctx, lock)
	default: // it may have been taken all the same: then the watch will show it
		return nil, l.failed(lock, known, fmt.Errorf("take lock %s: %w", l.nameOf(key), err))
	}
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
		l.mine[key.owner()] = &Lock{locker: l, key: key}
		l.waiting[key] = struct{}{} // until it is held
		return l.mine[key.owner()], known, nil
	}
	l.waiting[key] = struct{}{}
	return nil, nil, ErrHeld
}

// failed ends the attempt to take a lock, and returns err. The watch tells when it is free, if it has not done so
// already.
func (l *Locker) failed(lock *Lock, tried *v1alpha1.SyncObject, err error) error {
	l.mu.Lock()
	lock.end()
	moved := l.known(lock.key).ResourceVersion != tried.ResourceVersion
	l.mu.Unlock()
	if moved {
		l.options.Listener.Freed(lock.key)
	}
	return err
}

// taken remembers a lock that was taken, unless it was lost by the time that this is known.
func (l *Locker) taken(lock *Lock, before, now *v1alpha1.SyncObject) (*Lock, error) {
	l.observe(lock.key, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOurs(l.known(lock.key)) || !l.options.Replicas.Valid() {
		lock.end()
		return nil, ErrHeld
	}
	l.options.Metrics.Acquired.WithLabelValues(lock.key.Plugin).Inc()
	if before.Spec.PodName != "" && !l.isOurs(before) {
		l.options.Metrics.TakenOver.WithLabelValues(lock.key.Plugin).Inc()
		l.options.Log.Info("took the lock of a holder that is dead over", "lock", l.nameOf(lock.key).String(),
			"deployitem", lock.key.Item.String(), "holder", before.Spec.PodName, "process", processOf(before))
	}
	return l.hold(lock), nil
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

// withoutObject holds a lock without its object, which cannot be created in a namespace that is being deleted. Who was
// the holder when the object was deleted does without, as long as it is alive, and else the replica that the item
// prefers: all agree on it but for moments, and what it writes is conditional as ever.
func (l *Locker) withoutObject(ctx context.Context, lock *Lock) (*Lock, error) {
	last := l.lastOf(lock.key)
	if err := l.confirmDead(ctx, last); err != nil {
		return nil, l.failed(lock, &v1alpha1.SyncObject{}, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOurs(last) && l.Rank(lock.key) > 0 || !l.options.Replicas.Valid() {
		lock.end()
		return nil, ErrHeld
	}
	lock.noObject = true
	return l.hold(lock), nil
}

// lastOf returns a lock as it was when its object was deleted; an empty one if nobody held it then.
func (l *Locker) lastOf(key Key) *v1alpha1.SyncObject {
	if last, ok := l.last.Get(key); ok {
		return last.(*v1alpha1.SyncObject) //nolint:forcetypeassert // nothing else is put there
	}
	return &v1alpha1.SyncObject{}
}

func (l *Locker) hold(lock *Lock) *Lock {
	delete(l.waiting, lock.key)
	l.options.Metrics.Held.WithLabelValues(lock.key.Plugin).Inc()
	lock.state, lock.inUse, lock.since, lock.lost = held, true, time.Now(), make(chan struct{})
	return lock
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
	patch := client.MergeFromWithOptions(known, client.MergeFromWithOptimisticLock{})
	return object, l.options.API.Patch(ctx, object, patch)
}
