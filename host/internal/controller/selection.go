package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// claimed reports whether this host has picked the item's job up, or has deployed what is now to be deleted.
func (r *reconciler) claimed(item *v1alpha1.DeployItem) bool {
	if item.Status.Deployer.Identity != r.options.Identity {
		return false
	}
	return contract.IsUnderWay(item) ||
		item.DeletionTimestamp != nil && slices.Contains(item.Finalizers, v1alpha1.Finalizer)
}

// selection reports whether this host is meant for items of a Target. Without selectors it is, and the Target is not
// read.
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

// referencesThere reports whether the Context and the Target of an item are there, and the Secret of the Target.
func (r *reconciler) referencesThere(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	if _, err := r.targets.Context(ctx, item); err != nil {
		return false, ignoreMissing(err)
	}
	if item.Spec.Target == nil {
		return true, nil
	}
	target := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: item.Spec.Target.Name}, target)
	if err == nil && target.Spec.SecretRef != nil {
		secret := client.ObjectKey{Namespace: item.Namespace, Name: target.Spec.SecretRef.Name}
		err = r.cache.Get(ctx, secret, newSecretMetadata())
	}
	return err == nil, client.IgnoreNotFound(err)
}

// NewMetadata returns an empty object for metadata-only access to DeployItems.
func NewMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	return meta
}

// metadataOf is the metadata of an item that was read in full.
func metadataOf(item *v1alpha1.DeployItem) *metav1.PartialObjectMetadata {
	meta := NewMetadata()
	meta.ObjectMeta = item.ObjectMeta
	return meta
}

// Slim is the transformation for the cache of DeployItem metadata. Of the managed fields, by far the largest part of
// the metadata, it keeps who wrote the status last, and when, with a digest in place of the fields: that is enough to
// tell a write to the status from one to the metadata. It drops the annotation in which kubectl repeats the whole
// item.
func Slim(object any) (any, error) {
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
	var kept []metav1.ManagedFieldsEntry
	for _, field := range meta.ManagedFields {
		if field.Subresource != "status" {
			continue
		}
		if field.FieldsV1 != nil {
			digest := sha256.Sum256(field.FieldsV1.GetRawBytes())
			field.FieldsV1 = metav1.NewFieldsV1(`"` + hex.EncodeToString(digest[:8]) + `"`)
		}
		kept = append(kept, field)
	}
	meta.ManagedFields = kept
	return meta, nil
}

// UserAgent is how hosts name themselves to the API server, which notes the name with each write; a version follows
// it after a slash.
const UserAgent = "pergola-host"

// wroteStatus reports whether a host, this one or another, has ever written the status of an item.
func wroteStatus(meta *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(meta.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Subresource == "status" && f.Manager == UserAgent
	})
}

// extensionDomain is the end of the domains of annotations that are for hooks: Landscaper's deployer extensions have
// theirs in it.
const extensionDomain = ".extensions.landscaper.gardener.cloud/"

// extensionsChanged reports whether an annotation has changed that is for hooks.
func extensionsChanged(before, after *metav1.PartialObjectMetadata) bool {
	extensions := func(annotations map[string]string) map[string]string {
		annotations = maps.Clone(annotations)
		maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.Contains(key, extensionDomain) })
		return annotations
	}
	return !maps.Equal(extensions(before.Annotations), extensions(after.Annotations))
}

// onlyMetadataChanged reports whether the difference between two versions of an item is explained by a write to its
// metadata that asks for nothing: labels, annotations or owners have changed, and neither the spec nor the status
// has.
//
// A write to the status shows in none of the visible fields, so that a difference without a visible change is one.
// The managed fields tell the case in which the watch was interrupted and several writes arrive as one difference.
func onlyMetadataChanged(before, after *metav1.PartialObjectMetadata) bool {
	if before.Generation != after.Generation || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) {
		return false
	}
	for _, annotation := range []string{
		v1alpha1.OperationAnnotation, contract.AcceptedAnnotation, v1alpha1.DeleteWithoutUninstallAnnotation,
	} {
		if before.Annotations[annotation] != after.Annotations[annotation] {
			return false
		}
	}
	visible := !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!slices.Equal(before.Finalizers, after.Finalizers) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
	return visible && equality.Semantic.DeepEqual(before.ManagedFields, after.ManagedFields)
}
