package inuse

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// releasePage is how many objects are listed at once.
const releasePage = 500

// Release removes the finalizer from the objects of a cluster, or of a namespace in where, for a removed host, and
// returns the number of objects. It goes on after an error; the errors are those of the API server, wrapped and joined.
// It blocks until ctx ends.
func Release(ctx context.Context, c client.Client, where ...client.ListOption) (released int, _ error) {
	kept, err := Find(ctx, c, where...)
	errs := []error{err}
	for i := range kept {
		if err := remove(ctx, c, c, &kept[i]); err != nil {
			errs = append(errs, err)
		} else {
			released++
		}
	}
	return released, errors.Join(errs...)
}

// Find returns the metadata of the objects with the finalizer. It goes on after an error, as Release does.
func Find(ctx context.Context, c client.Reader, where ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var kept []metav1.PartialObjectMetadata
	var errs []error
	for _, gvk := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind(kindTarget), v1alpha1.GroupVersion.WithKind(kindContext),
		corev1.SchemeGroupVersion.WithKind(kindSecret), corev1.SchemeGroupVersion.WithKind(kindConfigMap),
	} {
		next := ""
		for more := true; more; more = next != "" {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(gvk)
			page := []client.ListOption{client.Limit(releasePage), client.Continue(next)}
			err := c.List(ctx, list, append(page, where...)...)
			next = list.Continue
			if meta.IsNoMatchError(err) { // the definitions have gone, too
				break
			} else if err != nil {
				errs = append(errs, fmt.Errorf("list objects of kind %s: %w", gvk.Kind, err))
				break
			}
			for i := range list.Items {
				if object := &list.Items[i]; controllerutil.ContainsFinalizer(object, Finalizer) {
					object.SetGroupVersionKind(gvk)
					kept = append(kept, *object)
				}
			}
		}
	}
	return kept, errors.Join(errs...)
}

// remove removes the finalizer from an object.
func remove(ctx context.Context, c client.Client, live client.Reader, object *metav1.PartialObjectMetadata) error {
	return edit(ctx, c, live, object, func() bool { return controllerutil.RemoveFinalizer(object, Finalizer) })
}

// edit writes a change of an object's finalizers on condition of its resourceVersion. After a conflict the object is
// read again. change reports whether it has changed something. A deleted object is no error.
func edit(
	ctx context.Context, c client.Client, live client.Reader, object *metav1.PartialObjectMetadata, change func() bool,
) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before := object.DeepCopy()
		if !change() {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := c.Patch(ctx, object, patch)
		if apierrors.IsConflict(err) {
			err = errors.Join(err, live.Get(ctx, client.ObjectKeyFromObject(before), object))
		}
		return err
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the finalizer of %s %q: %w", object.Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
