package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// References has items reconciled after the creation or a change of their Target, its Secret, their Context or its
// ConfigMap: jobs with an error, and jobs that have failed because the object was missing.
type References struct {
	Router *Router
	// Reader reads Targets and Contexts in the cache.
	Reader client.Reader
	// All: all users of the object are reconciled, not only items with an error and items being deleted. Selectors may
	// select them now, or no Landscaper sets their next job.
	All bool
	// Repaired is called with the users of an object whose content has changed, and of a new one. Nil for no call.
	Repaired func(users []types.NamespacedName)
	Log      *slog.Logger
}

const (
	kindTarget    = itemcache.KindTarget
	kindContext   = itemcache.KindContext
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// Watch handles the objects of a cache until ctx ends. It does not block.
func (r *References) Watch(ctx context.Context, informers cache.Informers) error {
	for kind, object := range map[string]client.Object{
		kindTarget: &v1alpha1.Target{}, kindContext: &v1alpha1.Context{},
		kindSecret: SecretMetadata(), kindConfigMap: coreMetadata(kindConfigMap),
	} {
		informer, err := informers.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(r.handler(ctx, kind)); err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
	}
	return nil
}

// handler handles the objects of a kind.
func (r *References) handler(ctx context.Context, kind string) toolscache.ResourceEventHandler {
	handle := func(obj any, content bool) {
		object, ok := obj.(metav1.Object)
		if !ok {
			return
		}
		key := client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetName()}
		if err := r.changed(ctx, kind, key, content && r.Repaired != nil); err != nil {
			r.Log.Error("items were not reconciled again after a change of what they use", "kind", kind,
				"object", key.String(), "error", err.Error())
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList { // else all items are reconciled
				handle(obj, true)
			}
		},
		UpdateFunc: func(before, obj any) {
			content := contentChanged(before, obj)
			if kind == kindSecret && (!content || r.Repaired == nil) {
				return // most are not of Targets, and a job that waits for the content is retried
			}
			handle(obj, content)
		},
	}
}

// contentChanged reports whether more than the metadata of an object has changed. Of an object with its metadata alone
// the content is unknown; its finalizers change with its users.
func contentChanged(before, after any) bool {
	switch after := after.(type) {
	case *v1alpha1.Target:
		before, ok := before.(*v1alpha1.Target)
		return !ok || !reflect.DeepEqual(before.Spec, after.Spec)
	case *v1alpha1.Context:
		before, ok := before.(*v1alpha1.Context)
		return !ok || !reflect.DeepEqual(before.ContextConfiguration, after.ContextConfiguration)
	case *metav1.PartialObjectMetadata:
		before, ok := before.(*metav1.PartialObjectMetadata)
		return !ok || before.ResourceVersion != after.ResourceVersion &&
			slices.Equal(before.Finalizers, after.Finalizers)
	default:
		return false
	}
}

// changed handles an object of a kind. content: more than its metadata has changed.
func (r *References) changed(ctx context.Context, kind string, object client.ObjectKey, content bool) error {
	switch kind {
	case kindSecret:
		return r.secretChanged(ctx, object, content)
	case kindConfigMap:
		return r.eachContext(ctx, object.Namespace, func(c *v1alpha1.Context) error {
			if ref := c.OCMConfig; ref == nil || ref.Name != object.Name {
				return nil
			}
			return r.reconcileUsers(kindContext, client.ObjectKeyFromObject(c), content)
		})
	default:
		return r.reconcileUsers(kind, object, content)
	}
}

// secretChanged handles the Targets and Contexts with references to a Secret.
func (r *References) secretChanged(ctx context.Context, secret client.ObjectKey, content bool) error {
	list := &v1alpha1.TargetList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Targets in the cache: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if ref := list.Items[i].Spec.SecretRef; ref != nil && ref.Name == secret.Name {
			errs = append(errs, r.reconcileUsers(kindTarget, client.ObjectKeyFromObject(&list.Items[i]), content))
		}
	}
	if content {
		errs = append(errs, r.eachContext(ctx, secret.Namespace, func(c *v1alpha1.Context) error {
			if !slices.Contains(lscontext.SecretsOf(c), secret.Name) {
				return nil
			}
			return r.reconcileUsers(kindContext, client.ObjectKeyFromObject(c), content)
		}))
	}
	return errors.Join(errs...)
}

// eachContext calls f with each Context of a namespace.
func (r *References) eachContext(ctx context.Context, namespace string, f func(*v1alpha1.Context) error) error {
	list := &v1alpha1.ContextList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Contexts in the cache: %w", err)
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, f(&list.Items[i]))
	}
	return errors.Join(errs...)
}

// reconcileUsers has the users of an object reconciled. With a change of its content they count as repaired.
func (r *References) reconcileUsers(kind string, object client.ObjectKey, content bool) error {
	var using []types.NamespacedName
	err := r.Router.Items.Users(kind, object, func(item *v1alpha1.DeployItem) {
		using = append(using, client.ObjectKeyFromObject(item))
		if r.All || item.DeletionTimestamp != nil {
			r.Router.route(item, priorityChange)
		}
	})
	r.Router.wakeFailing(using)
	if content {
		r.Repaired(using)
	}
	return err
}

// SecretMetadata returns an empty Secret for access to its metadata alone.
func SecretMetadata() *metav1.PartialObjectMetadata { return coreMetadata(kindSecret) }

func coreMetadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
