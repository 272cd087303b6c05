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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var _ reconcile.Reconciler = (*Setter)(nil)

// Reconcile meets the need of an item. Only an item with a need by the cache is read: a change missing in the cache
// comes as an event.
func (s *Setter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	item := &v1alpha1.DeployItem{} // of the cache, and not to be changed
	err := s.cache.Get(ctx, req.NamespacedName, item, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && !s.options.Elected(item.Spec.Type) {
		s.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("read deploy item in the cache: %w", err)
	}
	if d := s.decide(item); d.need == needNothing { //nolint:contextcheck // the cache answers from memory
		return reconcile.Result{RequeueAfter: d.again}, nil
	}

	item = &v1alpha1.DeployItem{}
	if err := s.live.Get(ctx, req.NamespacedName, item); apierrors.IsNotFound(err) {
		s.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("read deploy item: %w", err)
	}
	d := s.decide(item) //nolint:contextcheck // the cache answers from memory
	err = s.act(ctx, item, d.need)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	return reconcile.Result{RequeueAfter: d.again}, err
}

// decide returns the need of an item, and the time of its next check.
func (s *Setter) decide(item *v1alpha1.DeployItem) decision {
	now := s.clock.Now()
	if !s.serves(item.Spec.Type) {
		return s.decideUnserved(item, now)
	}
	k := s.memory.see(item, now)
	k.repaired = k.repaired || s.holderGone(item)
	d := decide(item, k, s.options, now)
	if d.need == needNothing && (!annotated(item) || !s.conditionsFit(item)) {
		d.need = needNotes
	}
	return d
}

// decideUnserved is decide for an item without a plugin for its type.
func (s *Setter) decideUnserved(item *v1alpha1.DeployItem, now time.Time) decision {
	key, d := client.ObjectKeyFromObject(item), decide(item, known{}, s.options, now)
	operation := contract.Finished(item) && // else the user hears of it when the job ends
		item.Annotations[v1alpha1.OperationAnnotation] != "" && contract.UnknownOperation(item) == ""
	next := needUnserved
	if releasable(item) && contract.Unserved(item) != "" { // others would have removed that condition
		next = needRelease
	}
	switch {
	case !operation && d.need == needNothing && next == needUnserved:
		s.memory.forget(key)
		return d
	case s.options.Unserved(item.Spec.Type) == "", // others may serve other types
		contract.Unserved(item) != "" && next == needUnserved:
		s.memory.forget(key)
		return decision{need: needNothing}
	}
	if wait := s.memory.seenUnserved(key, now).Add(s.options.UnservedGrace()).Sub(now); wait > 0 {
		return decision{need: needNothing, again: wait}
	}
	return decision{need: next}
}

// releasable reports whether an item is being deleted without its deployed objects, and only its finalizer is left.
func releasable(item *v1alpha1.DeployItem) bool {
	return contract.LeavesBehind(item) && controllerutil.ContainsFinalizer(item, v1alpha1.Finalizer)
}

// holderGone reports whether the item that held what this one needs does not exist any more.
func (s *Setter) holderGone(item *v1alpha1.DeployItem) bool {
	by := contract.HeldOf(item).By
	return by.Name != "" &&
		apierrors.IsNotFound(s.cache.Get(context.Background(), by, &v1alpha1.DeployItem{}, client.UnsafeDisableDeepCopy))
}

// isIdle reports whether an item needs nothing before its next change, with or without a plugin for its type.
func (s *Setter) isIdle(item *v1alpha1.DeployItem) bool {
	k := s.memory.recall(item)
	k.repaired = k.repaired || s.holderGone(item)
	return !k.repaired && !releasable(item) && annotated(item) &&
		item.Annotations[v1alpha1.OperationAnnotation] == "" && s.conditionsFit(item) &&
		decide(item, k, s.options, s.clock.Now()) == decision{need: needNothing}
}

// interval is the interval between two comparisons of an item; zero for none.
func (s *Setter) interval(item *v1alpha1.DeployItem) time.Duration {
	if s.options.CompareInterval <= 0 || !isCompared(item) || !s.options.Compares(item.Spec.Type) {
		return 0
	}
	return s.options.CompareInterval
}

// conditionsFit reports whether the conditions Served, Paused and NextTry are up to date.
func (s *Setter) conditionsFit(item *v1alpha1.DeployItem) bool {
	return contract.Unserved(item) == "" && contract.ShowsPaused(item) && s.options.Pauses.FitPlan(item)
}

// annotated reports whether the annotations for deployers are up to date.
func annotated(item *v1alpha1.DeployItem) bool {
	for key, value := range contract.DeployerAnnotations(item) {
		if item.Annotations[key] != value {
			return false
		}
	}
	return true
}

// act meets the need of an item.
func (s *Setter) act(ctx context.Context, item *v1alpha1.DeployItem, need need) error {
	switch need {
	case needNothing:
		return nil
	case needUnserved:
		return s.reportUnserved(ctx, item)
	case needRelease:
		return s.release(ctx, item)
	default:
	}
	if err := s.annotate(ctx, item); err != nil {
		return err
	}
	if !s.conditionsFit(item) {
		err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) {
			contract.SetServed(item)
			contract.ShowPaused(item, s.clock.Now())
			s.options.Pauses.Replan(item, s.random(), s.clock.Now())
		})
		if err != nil {
			return fmt.Errorf("update the conditions of the deploy item: %w", err)
		}
	}
	switch need {
	case needJob:
		return s.setJob(ctx, item, contract.SetNewJob)
	case needTry:
		next, _ := s.options.Pauses.NextTry(item)
		return s.setTry(ctx, item, next)
	case needComparison:
		return s.setJob(ctx, item, contract.SetJobOfHook) // for its deployer a job by a schedule
	case needRepaired:
		return s.setTry(ctx, item, contract.AfterRepair(item))
	case needPickupTimeout:
		return s.endPickup(ctx, item)
	case needProgressingTimeout:
		return s.end(ctx, item, deadDeployerError(item), func(*v1alpha1.DeployItemStatus) {})
	default:
		return nil
	}
}

// annotate updates the annotations for deployers.
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

// setJob sets a new job. A job without initTime is not picked up yet.
func (s *Setter) setJob(
	ctx context.Context, item *v1alpha1.DeployItem, set func(item *v1alpha1.DeployItem, jobID string, now time.Time),
) error {
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) { set(item, uuid.NewString(), s.clock.Now()) })
	if err != nil {
		return fmt.Errorf("set job: %w", err)
	}
	s.memory.jobSet(client.ObjectKeyFromObject(item))
	s.log.Info("set job", "deployitem", item.Namespace+"/"+item.Name, "jobID", item.Status.JobID,
		"deletion", item.DeletionTimestamp != nil)
	return nil
}

// setTry sets a job for a try.
func (s *Setter) setTry(ctx context.Context, item *v1alpha1.DeployItem, try contract.Try) error {
	return s.setJob(ctx, item, func(item *v1alpha1.DeployItem, jobID string, now time.Time) {
		contract.SetTry(item, jobID, try, now)
	})
}

// endPickup ends a job after its pickup timeout.
func (s *Setter) endPickup(ctx context.Context, item *v1alpha1.DeployItem) error {
	missing, err := s.targetMissing(ctx, item)
	if err != nil {
		return err
	}
	e := pickupTimeoutError(s.options.PickupTimeout, missing)
	return s.end(ctx, item, e, func(status *v1alpha1.DeployItemStatus) {
		// Otherwise the item would need the next job at once, for the spec of the failed one.
		status.ObservedGeneration = item.Generation
		// They are of the job before.
		status.LastError, status.FirstError, status.LastErrors = nil, nil, nil
	})
}

// end writes the failure of a job. The resourceVersion protects a job picked up or ended meanwhile.
func (s *Setter) end(
	ctx context.Context, item *v1alpha1.DeployItem, e contract.Error, change func(*v1alpha1.DeployItemStatus),
) error {
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) {
		change(&item.Status)
		s.options.Pauses.Fail(item, item.DeletionTimestamp != nil, e, s.random(), s.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("end job: %w", err)
	}
	s.log.Warn("ended job in place of its deployer", "deployitem", item.Namespace+"/"+item.Name,
		"jobID", item.Status.JobID, "reason", e.Reason, "message", e.Message)
	return nil
}

// targetMissing reports whether the Target of the item is missing.
func (s *Setter) targetMissing(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	if item.Spec.Target == nil || item.Spec.Target.Name == "" {
		return false, nil
	}
	key := types.NamespacedName{Namespace: item.Namespace, Name: item.Spec.Target.Name}
	err := s.client.Get(ctx, key, &v1alpha1.Target{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read the Target of a job after its pickup timeout: %w", err)
	}
	return err != nil, nil
}

// reportUnserved reports the lack of a plugin in the status of an item with work, and in an event.
func (s *Setter) reportUnserved(ctx context.Context, item *v1alpha1.DeployItem) error {
	message := s.options.Unserved(item.Spec.Type)
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) {
		contract.SetUnserved(item, message, s.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("note the lack of a plugin for the type of the deploy item: %w", err)
	}
	s.memory.forget(client.ObjectKeyFromObject(item))
	s.recorder.Eventf(item, nil, corev1.EventTypeWarning, contract.ReasonTypeNotServed, "SetJob", "%s", message)
	return nil
}

// release removes the finalizer of an item without a plugin, as its user wishes.
func (s *Setter) release(ctx context.Context, item *v1alpha1.DeployItem) error {
	before := item.DeepCopy()
	controllerutil.RemoveFinalizer(item, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.client.Patch(ctx, item, patch); err != nil {
		return fmt.Errorf("remove the finalizer of a deploy item without a plugin: %w", err)
	}
	s.memory.forget(client.ObjectKeyFromObject(item))
	s.log.Info("released deploy item without deletion of its objects: no plugin serves its type",
		"deployitem", item.Namespace+"/"+item.Name, "type", item.Spec.Type)
	return nil
}

// writeStatus writes a change of the status of an item on condition of its resourceVersion. Afterwards the item is as
// written.
func (s *Setter) writeStatus(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	before, after := item.DeepCopy(), item.DeepCopy()
	change(after)
	contract.KeepTransitions(&before.Status, &after.Status)
	// The schema requires this field, so that it is always written.
	before.Status.ObservedGeneration = after.Status.ObservedGeneration - 1
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.client.Status().Patch(ctx, after, patch); err != nil {
		return err
	}
	*item = *after
	return nil
}
