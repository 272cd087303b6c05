package controller

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// references has items reconciled when a Target or a Context that they refer to, the Secret of the Target, or the
// ConfigMap of the Context is created or changed: jobs with an error, jobs that have failed because it was missing, and
// items that selectors may select now.
type references struct {
	router *router
	reader client.Reader // Targets and Contexts
	// all: all items that refer to it are reconciled, and not only those with an error and those being deleted.
	all bool
	log *slog.Logger
}

const (
	kindTarget    = itemcache.KindTarget
	kindContext   = itemcache.KindContext
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// handler handles the objects of a kind. Those that existed when the host started are ignored: all items are reconciled
// then.
func (r *references) handler(ctx context.Context, kind string) cache.ResourceEventHandler {
	changed := func(obj any) {
		if object, ok := obj.(metav1.Object); ok {
			r.changed(ctx, kind, client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetName()})
		}
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList {
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

func (r *references) changed(ctx context.Context, kind string, object client.ObjectKey) {
	var err error
	switch kind {
	case kindSecret:
		err = r.secretCame(ctx, object)
	case kindConfigMap:
		err = r.configMapChanged(ctx, object)
	default:
		err = r.reconcileUsers(kind, object)
	}
	if err != nil {
		r.log.Error("items were not reconciled again after a change of what they use", "kind", kind,
			"object", object.String(), "error", err.Error())
	}
}

// secretCame handles the Targets that refer to a Secret.
func (r *references) secretCame(ctx context.Context, secret client.ObjectKey) error {
	list := &v1alpha1.TargetList{}
	if err := r.reader.List(ctx, list, client.InNamespace(secret.Namespace), client.UnsafeDisableDeepCopy); err != nil {
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
func (r *references) configMapChanged(ctx context.Context, configMap client.ObjectKey) error {
	list := &v1alpha1.ContextList{}
	if err := r.reader.List(
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

// reconcileUsers has the items reconciled that refer to an object.
func (r *references) reconcileUsers(kind string, object client.ObjectKey) error {
	var using []types.NamespacedName
	err := r.router.cache.Users(kind, object, func(item *v1alpha1.DeployItem) {
		using = append(using, keyOf(item))
		if r.all || item.DeletionTimestamp != nil {
			r.router.route(item, priorityChange)
		}
	})
	r.router.wakeFailing(using)
	return err
}

// newCoreMetadata returns an empty object for metadata-only access to the Secrets or ConfigMaps.
func newCoreMetadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// watchLocks returns when the locks of others are known.
func (c *Controller) watchLocks(ctx context.Context) error {
	if c.options.Locks == nil {
		return nil
	}
	informer, err := c.manager.GetCache().GetInformer(ctx, &v1alpha1.SyncObject{})
	if err != nil {
		return fmt.Errorf("watch locks: %w", err)
	}
	return c.options.Locks.Watch(ctx, informer)
}

// watchReferences has items reconciled when what they refer to changes.
func (c *Controller) watchReferences(ctx context.Context) error {
	r := &references{
		router: c.router, reader: c.manager.GetCache(), log: c.options.Log,
		all: c.options.Standalone || !c.options.Selectors.Empty(),
	}
	for kind, object := range map[string]client.Object{
		kindTarget: &v1alpha1.Target{}, kindContext: &v1alpha1.Context{},
		kindSecret: newCoreMetadata(kindSecret), kindConfigMap: newCoreMetadata(kindConfigMap),
	} {
		informer, err := c.manager.GetCache().GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(r.handler(ctx, kind)); err != nil {
			return fmt.Errorf("watch %ss: %w", kind, err)
		}
	}
	return nil
}
