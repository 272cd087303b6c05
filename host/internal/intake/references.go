package intake

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/itemcache"
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
	Log *slog.Logger
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
	changed := func(obj any) {
		if object, ok := obj.(metav1.Object); ok {
			r.changed(ctx, kind, client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetName()})
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList { // else all items are reconciled
				changed(obj)
			}
		},
		UpdateFunc: func(_, obj any) {
			if kind != kindSecret { // most are not of Targets, and a job that waits for the content is retried
				changed(obj)
			}
		},
	}
}

func (r *References) changed(ctx context.Context, kind string, object client.ObjectKey) {
	var err error
	switch kind {
	case kindSecret:
		err = r.secretCreated(ctx, object)
	case kindConfigMap:
		err = r.configMapChanged(ctx, object)
	default:
		err = r.reconcileUsers(kind, object)
	}
	if err != nil {
		r.Log.Error("items were not reconciled again after a change of what they use", "kind", kind,
			"object", object.String(), "error", err.Error())
	}
}

// secretCreated handles the Targets that refer to a Secret.
func (r *References) secretCreated(ctx context.Context, secret client.ObjectKey) error {
	list := &v1alpha1.TargetList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Targets in the cache: %w", err)
	}
	for i := range list.Items {
		if ref := list.Items[i].Spec.SecretRef; ref != nil && ref.Name == secret.Name {
			r.changed(ctx, kindTarget, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return nil
}

// configMapChanged handles the Contexts whose ocmConfig names a ConfigMap.
func (r *References) configMapChanged(ctx context.Context, configMap client.ObjectKey) error {
	list := &v1alpha1.ContextList{}
	if err := r.Reader.List(
		ctx, list, client.InNamespace(configMap.Namespace), client.UnsafeDisableDeepCopy,
	); err != nil {
		return fmt.Errorf("list Contexts in the cache: %w", err)
	}
	for i := range list.Items {
		if ref := list.Items[i].OCMConfig; ref != nil && ref.Name == configMap.Name {
			r.changed(ctx, kindContext, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return nil
}

// reconcileUsers has the users of an object reconciled.
func (r *References) reconcileUsers(kind string, object client.ObjectKey) error {
	var using []types.NamespacedName
	err := r.Router.Items.Users(kind, object, func(item *v1alpha1.DeployItem) {
		using = append(using, client.ObjectKeyFromObject(item))
		if r.All || item.DeletionTimestamp != nil {
			r.Router.route(item, priorityChange)
		}
	})
	r.Router.wakeFailing(using)
	return err
}

// SecretMetadata returns an empty Secret for access to its metadata alone.
func SecretMetadata() *metav1.PartialObjectMetadata { return coreMetadata(kindSecret) }

func coreMetadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
