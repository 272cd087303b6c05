package controller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// The reasons of events about operations.
const (
	reasonOperationAccepted = "OperationAccepted"
	reasonUnknownOperation  = "UnknownOperation"
)

// accept accepts the requested operation, if there is one, and returns the decision after it. That is Restart only as
// long as the item refers to something missing.
func (r *reconciler) accept(
	ctx context.Context, full itemstate.Content, decision contract.Decision,
) (contract.Decision, error) {
	item := full.Item
	if !full.Own { // else it was reported before
		r.reportUnknownOperation(item)
	}
	if decision.Action == contract.Accept {
		if err := r.acceptOperation(ctx, item); err != nil {
			return decision, err
		}
		decision = r.rules.Decide(item)
	}
	if decision.Action != contract.Restart {
		return decision, nil
	}
	exist, err := r.referencesExist(ctx, item)
	if exist { // the new job does the same as the last one, and for the same requester
		decision.Action, decision.ByHook = contract.Start, sdkhook.AskedFor(item)
	}
	return decision, err
}

// referencesExist reports whether an item's Context, its Target and the Secret of the Target exist.
func (r *reconciler) referencesExist(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	if _, err := r.targets.Context(ctx, item); err != nil {
		return false, ignoreMissing(err)
	}
	if item.Spec.Target == nil {
		return true, nil
	}
	target := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: item.Spec.Target.Name}, target)
	if err == nil && r.options.Keeper != nil && contract.CameTooLate(item.CreationTimestamp, target) {
		return false, nil
	}
	if err == nil && target.Spec.SecretRef != nil {
		secret := client.ObjectKey{Namespace: item.Namespace, Name: target.Spec.SecretRef.Name}
		err = r.cache.Get(ctx, secret, intake.SecretMetadata())
	}
	return err == nil, client.IgnoreNotFound(err)
}

// ignoreMissing returns nil for an error about a missing or wrong Target or Context.
func ignoreMissing(err error) error {
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		return nil
	}
	return err
}

// acceptOperation replaces the annotation for an operation with the note of the operation, in one write.
func (r *reconciler) acceptOperation(ctx context.Context, item *v1alpha1.DeployItem) error {
	if _, err := r.locks.Acquire(ctx, lockKey(r.name, item)); err != nil {
		return err
	}
	var operation string
	var effective bool
	err := r.items.UpdateMetadata(ctx, item, func(item *v1alpha1.DeployItem) {
		operation, effective = contract.AcceptOperation(item, r.newJobID(), r.options.AbortTimeout, r.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("accept operation: %w", err)
	}
	message := fmt.Sprintf("the operation %q begins", operation)
	switch {
	case !effective:
		message = fmt.Sprintf("there is nothing to do for the operation %q: no job is under way", operation)
	case operation == v1alpha1.OperationAbort && contract.Finished(item):
		message = "the operation accepted before is withdrawn: its job was not set yet"
	}
	r.log.Info("accepted operation", "deployitem", item.Namespace+"/"+item.Name,
		"operation", operation, "effective", effective)
	r.recorder.Record(item, corev1.EventTypeNormal, reasonOperationAccepted, message)
	return nil
}

// reportUnknownOperation reports the request for an unknown operation to the user. One replica does so: the holder of
// the item's lock, or else the preferred replica.
func (r *reconciler) reportUnknownOperation(item *v1alpha1.DeployItem) {
	unknown, key := contract.UnknownOperation(item), lockKey(r.name, item)
	if unknown == "" || r.locks.Rank(key) > 0 && !r.locks.Holds(key) {
		return
	}
	r.recorder.Record(item, corev1.EventTypeWarning, reasonUnknownOperation, fmt.Sprintf(
		"the annotation %s asks for %q, which is left alone: expected %s, %s, %s or %s",
		v1alpha1.OperationAnnotation, unknown, v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile,
		v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort))
}
