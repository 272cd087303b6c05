package standalone

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var _ reconcile.Reconciler = (*Setter)(nil)

// Reconcile gives an item what it needs. Nothing is decided from a cache but not to read what has not changed: each
// write is conditional on what was read here.
func (s *Setter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if spared, err := s.spares(ctx, req.NamespacedName); err != nil || spared {
		return reconcile.Result{}, err
	}
	item := &v1alpha1.DeployItem{}
	if err := s.live.Get(ctx, req.NamespacedName, item); err != nil {
		if apierrors.IsNotFound(err) {
			s.memory.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read deploy item: %w", err)
	}
	var after time.Duration
	var err error
	switch {
	case !s.options.Elected(item.Spec.Type):
		s.memory.drop(req.NamespacedName)
	case !s.serves(item.Spec.Type):
		after, err = s.reportUnserved(ctx, item)
	default:
		after, err = s.provide(ctx, item)
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return reconcile.Result{RequeueAfter: pause}, nil
	case err != nil:
		return reconcile.Result{}, err
	case after == pause: // what was written is to be read before it is remembered
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	if s.memory.remember(item, idle(item, s.options, s.clock.Now())).jobLater {
		meta := s.newMetadata()
		err := s.cache.Get(ctx, req.NamespacedName, meta, client.UnsafeDisableDeepCopy)
		if err == nil && contract.Newer(meta.ResourceVersion, item.ResourceVersion) { // the job may have ended since the read
			return reconcile.Result{RequeueAfter: pause}, nil
		}
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// spares reports whether an item need not be read: it has not changed since it was seen to be idle, or to be of a type
// that no plugin serves and to say so; or another replica is elected for it, in which case it is reconciled when that
// is not so any more. The cache may lag behind, but what it does not show yet comes as an event; see reconcileAfter.
func (s *Setter) spares(ctx context.Context, key types.NamespacedName) (bool, error) {
	meta := s.newMetadata() // not to be changed
	if err := s.cache.Get(ctx, key, meta, client.UnsafeDisableDeepCopy); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if itemType, typed := contract.TypeOf(meta); typed && !s.options.Elected(itemType) {
		s.memory.drop(key)
		return true, nil
	}
	seen, ok := s.memory.recall(meta)
	if !ok || seen.idle || s.serves(seen.itemType) {
		return ok && seen.idle, nil
	}
	return seen.saysUnserved || s.options.Unserved(seen.itemType) == "", nil
}

// idle reports whether an item needs nothing at any time as long as it stays as it is, were its type served or not.
func idle(item *v1alpha1.DeployItem, o Options, now time.Time) bool {
	return annotated(item) && item.Annotations[v1alpha1.OperationAnnotation] == "" && contract.Unserved(item) == "" &&
		decide(item, known{}, o, now) == decision{need: needNothing}
}

// annotated reports whether the annotations are up to date in which an item repeats what a deployer must know of it.
func annotated(item *v1alpha1.DeployItem) bool {
	for key, value := range contract.DeployerAnnotations(item) {
		if item.Annotations[key] != value {
			return false
		}
	}
	return true
}

// provide gives an item what it needs that was just read, and returns when it is to be reconciled again; zero for
// never.
func (s *Setter) provide(ctx context.Context, item *v1alpha1.DeployItem) (time.Duration, error) {
	now := s.clock.Now()
	v := decide(item, s.memory.see(item, now), s.options, now)
	if err := s.annotate(ctx, item); err != nil {
		return 0, err
	}
	if contract.Unserved(item) != "" {
		if err := s.writeStatus(ctx, item, contract.SetServed); err != nil {
			return 0, fmt.Errorf("note that the type of the deploy item is served: %w", err)
		}
	}
	switch v.need {
	case needJob:
		return v.again, s.setJob(ctx, item)
	case needPickupTimeout:
		return pause, s.endPickup(ctx, item) // the item may need the next job
	case needProgressingTimeout:
		return pause, s.end(ctx, item, deadDeployerError(item), func(*v1alpha1.DeployItemStatus) {})
	case needNothing:
	}
	return v.again, nil
}

// annotate updates the annotations in which an item repeats what a deployer must know of it.
func (s *Setter) annotate(ctx context.Context, item *v1alpha1.DeployItem) error {
	if annotated(item) {
		return nil
	}
	before := item.DeepCopy()
	for key, value := range contract.DeployerAnnotations(item) {
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, key, value)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.client.Patch(ctx, item, patch); err != nil {
		return fmt.Errorf("annotate deploy item with its type and target: %w", err)
	}
	return nil
}

// setJob sets a new job. The deployer takes a job without initTime for one that nobody has picked up.
func (s *Setter) setJob(ctx context.Context, item *v1alpha1.DeployItem) error {
	now := v1alpha1.NewTime(s.clock.Now())
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) {
		item.Status.JobID, item.Status.JobIDGenerationTime = uuid.NewString(), &now
		item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &now}
	})
	if err != nil {
		return fmt.Errorf("set job: %w", err)
	}
	s.log.Info("set job", "deployitem", item.Namespace+"/"+item.Name, "jobID", item.Status.JobID,
		"deletion", item.DeletionTimestamp != nil)
	return nil
}

// endPickup ends a job that nobody has picked up.
func (s *Setter) endPickup(ctx context.Context, item *v1alpha1.DeployItem) error {
	missing, err := s.targetMissing(ctx, item)
	if err != nil {
		return err
	}
	e := pickupTimeoutError(s.options.PickupTimeout, missing)
	return s.end(ctx, item, e, func(status *v1alpha1.DeployItemStatus) {
		// Otherwise the item would need the next job at once, for what has just failed.
		status.ObservedGeneration = item.Generation
		// They are of the job before, which is not picked up anew.
		status.LastError, status.FirstError, status.LastErrors = nil, nil, nil
	})
}

// end writes down that the job has failed. A job that was picked up or ended meanwhile is kept by the resourceVersion.
func (s *Setter) end(
	ctx context.Context, item *v1alpha1.DeployItem, e contract.Error, change func(*v1alpha1.DeployItemStatus),
) error {
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) {
		change(&item.Status)
		contract.Fail(item, item.DeletionTimestamp != nil, e, s.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("end job: %w", err)
	}
	s.log.Warn("ended job that no deployer has ended", "deployitem", item.Namespace+"/"+item.Name,
		"jobID", item.Status.JobID, "reason", e.Reason, "message", e.Message)
	return nil
}

// targetMissing reports whether the item names a Target that does not exist.
func (s *Setter) targetMissing(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	if item.Spec.Target == nil || item.Spec.Target.Name == "" {
		return false, nil
	}
	key := types.NamespacedName{Namespace: item.Namespace, Name: item.Spec.Target.Name}
	err := s.client.Get(ctx, key, &v1alpha1.Target{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read the Target of a job that nobody has picked up: %w", err)
	}
	return err != nil, nil
}

// reportUnserved writes on an item that needs something that nobody serves its type, and returns when it is to be
// reconciled again; zero for never.
func (s *Setter) reportUnserved(ctx context.Context, item *v1alpha1.DeployItem) (time.Duration, error) {
	key, now := client.ObjectKeyFromObject(item), s.clock.Now()
	message, v := s.options.Unserved(item.Spec.Type), decide(item, known{}, s.options, now)
	asked := contract.Finished(item) && // else whoever has the job hears it when that ends
		item.Annotations[v1alpha1.OperationAnnotation] != "" && contract.UnknownOperation(item) == ""
	switch {
	case !asked && v.need == needNothing:
		s.memory.drop(key)
		return v.again, nil
	case message == "" || contract.Unserved(item) != "": // others may serve other types, and say so
		s.memory.drop(key)
		return 0, nil
	}
	if wait := s.memory.seenUnserved(key, now).Add(s.options.UnservedGrace).Sub(now); wait > 0 {
		return wait, nil
	}
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) { contract.SetUnserved(item, message, now) })
	if err != nil {
		return 0, fmt.Errorf("note that nobody serves the type of the deploy item: %w", err)
	}
	s.memory.drop(key)
	s.recorder.Eventf(item, nil, corev1.EventTypeWarning, contract.ReasonTypeNotServed, "SetJob", "%s", message)
	return 0, nil
}

// writeStatus writes a change of the status of an item, if nobody else has written since it was read. The item becomes
// the one that was written.
func (s *Setter) writeStatus(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	before, after := item.DeepCopy(), item.DeepCopy()
	change(after)
	// The schema requires this field, so that it is always written.
	before.Status.ObservedGeneration = after.Status.ObservedGeneration - 1
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.client.Status().Patch(ctx, after, patch); err != nil {
		return err
	}
	*item = *after
	return nil
}
