package controller

import (
	"context"
	"fmt"
	"slices"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// mayBeOurs reports whether this host may be responsible for an item, by its metadata. It may be for one whose Target
// is missing: a running job goes on, and what was deployed is deleted. It is not for one whose Target exists and is not
// selected, whatever was before.
func (r *reconciler) mayBeOurs(ctx context.Context, meta *metav1.PartialObjectMetadata) (bool, error) {
	target, has, known := contract.TargetOf(meta)
	if !known {
		return true, nil
	}
	selection, err := r.selection(ctx, meta, target, has)
	return selection.Responsible || selection.Reason == selector.TargetNotFound, err
}

// isOurs reports whether this host is responsible for an item, by the item in full.
func (r *reconciler) isOurs(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	target, has := contract.TargetOfItem(item)
	selection, err := r.selection(ctx, item, target, has)
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
func (r *reconciler) selection(
	ctx context.Context, item metav1.Object, name string, has bool,
) (selector.Selection, error) {
	if r.options.Selectors.Empty() || !has {
		return r.options.Selectors.Select(has, nil), nil
	}
	found := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.GetNamespace(), Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return selector.Selection{}, fmt.Errorf("read Target: %w", err)
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

var typeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.DeployItemGVK.Kind}

// NewMetadata returns an empty object for metadata-only access to DeployItems.
func NewMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: typeMeta}
}

// kept are the annotations of deploy items that the host reads in the cache.
var kept = []string{
	v1alpha1.DeployerTypeAnnotation, v1alpha1.DeployerTargetNameAnnotation, v1alpha1.OperationAnnotation,
}

// slim is what a cache keeps of an item: what the host reads there, with one copy of what many items share.
func slim(item *v1alpha1.DeployItem) *metav1.PartialObjectMetadata {
	slim := NewMetadata()
	slim.Name, slim.Namespace = item.Name, shared(item.Namespace)
	slim.UID, slim.ResourceVersion, slim.Generation = item.UID, item.ResourceVersion, item.Generation
	slim.CreationTimestamp, slim.DeletionTimestamp = item.CreationTimestamp, item.DeletionTimestamp
	for _, key := range kept {
		if value, ok := item.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&slim.ObjectMeta, key, shared(value))
		}
	}
	return slim
}

func shared(text string) string { return unique.Make(text).Value() }

// UserAgent is the user agent of hosts, which the API server notes with each write; a slash and a version follow.
const UserAgent = "pergola-host"
