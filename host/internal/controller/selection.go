package controller

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// mayBeOurs tells from metadata whether an item may be one that this host is meant for. One whose Target is missing
// is so only if it was claimed before: a job under way goes on, and what was deployed is deleted, although the Target
// is gone. A Target that is there and not selected is the matter of another host, whatever was before.
func (r *reconciler) mayBeOurs(ctx context.Context, meta *metav1.PartialObjectMetadata) (bool, error) {
	target, has, known := contract.TargetOf(meta)
	if !known {
		return true, nil
	}
	selection, err := r.selection(ctx, meta, target, has)
	missing := selection.Reason == contract.TargetNotFound
	return selection.Responsible || missing && (wroteStatus(meta) || meta.DeletionTimestamp != nil), err
}

// isOurs tells the same from the item in full.
func (r *reconciler) isOurs(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	target, has := contract.TargetOfItem(item)
	selection, err := r.selection(ctx, item, target, has)
	return selection.Responsible || selection.Reason == contract.TargetNotFound && r.claimed(item), err
}

// claimed tells whether this host has picked the item's job up, or has deployed what is now to be deleted.
func (r *reconciler) claimed(item *v1alpha1.DeployItem) bool {
	if item.Status.Deployer.Identity != r.options.Identity {
		return false
	}
	return contract.IsUnderWay(item) ||
		item.DeletionTimestamp != nil && slices.Contains(item.Finalizers, v1alpha1.Finalizer)
}

// selection tells whether this host is meant for items of a Target. Without selectors it is, and the Target is not
// looked at.
func (r *reconciler) selection(
	ctx context.Context, item metav1.Object, name string, has bool,
) (contract.Selection, error) {
	if r.options.Selectors.Empty() || !has {
		return r.options.Selectors.Select(has, nil), nil
	}
	found := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.GetNamespace(), Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return contract.Selection{}, fmt.Errorf("read Target: %w", err)
	}
	var object metav1.Object
	if err == nil {
		object = found
	}
	decision := r.options.Selectors.Select(true, object)
	if !decision.Responsible {
		r.log.Debug("deploy item is not for this host", "deployitem", item.GetNamespace()+"/"+item.GetName(),
			"reason", decision.Reason, "message", decision.Message)
	}
	return decision, nil
}
