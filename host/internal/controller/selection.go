package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// mayBeOurs reports whether this host may be responsible for an item. It may be for an item whose Target is missing: a
// running job goes on, and objects that were deployed are deleted. It is not for one whose Target exists and is not
// selected, whatever was before.
func (r *reconciler) mayBeOurs(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	selection, err := r.selection(ctx, item)
	return selection.Responsible || selection.Reason == selector.TargetNotFound, err
}

// isOurs reports whether this host is responsible for an item, by the item in full.
func (r *reconciler) isOurs(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	selection, err := r.selection(ctx, item)
	return selection.Responsible || selection.Reason == selector.TargetNotFound && r.deployedHere(item), err
}

// deployedHere reports whether this host has picked up the item's job, or has deployed what is being deleted.
func (r *reconciler) deployedHere(item *v1alpha1.DeployItem) bool {
	if item.Status.Deployer.Identity != r.options.Identity {
		return false
	}
	return contract.IsUnderWay(item) ||
		item.DeletionTimestamp != nil && slices.Contains(item.Finalizers, v1alpha1.Finalizer)
}

// selection decides whether the selectors select the items of a Target. Without selectors the Target is not read.
func (r *reconciler) selection(ctx context.Context, item *v1alpha1.DeployItem) (selector.Selection, error) {
	name, has := contract.TargetOfItem(item)
	if r.options.Selectors.Empty() || !has {
		return r.options.Selectors.Select(has, nil), nil
	}
	found := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return selector.Selection{}, fmt.Errorf("read Target: %w", err)
	}
	var object metav1.Object
	if err == nil {
		object = found
	}
	decision := r.options.Selectors.Select(true, object)
	if !decision.Responsible {
		r.log.Debug("deploy item is not for this host", "deployitem", item.Namespace+"/"+item.Name,
			"reason", decision.Reason, "message", decision.Message)
	}
	return decision, nil
}

// referencesThere reports whether an item's Context, its Target and the Secret of the Target exist.
func (r *reconciler) referencesThere(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
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
		err = r.cache.Get(ctx, secret, newCoreMetadata(kindSecret))
	}
	return err == nil, client.IgnoreNotFound(err)
}

// UserAgent is the user agent of hosts, which the API server notes with each write; a slash and a version follow.
const UserAgent = "pergola-host"

// ignoreMissing returns nil for an error about a missing or wrong Target or Context.
func ignoreMissing(err error) error {
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		return nil
	}
	return err
}
