package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// watchedBesides are the objects besides deploy items that package target reads from the cache.
func watchedBesides() []client.Object {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return []client.Object{&v1alpha1.Target{}, &v1alpha1.Context{}, secret}
}

// watchLocks has the locks of others known before anything is done.
func (c *Controller) watchLocks(ctx context.Context) error {
	if c.locker == nil {
		return nil
	}
	informer, err := c.manager.GetCache().GetInformer(ctx, &v1alpha1.SyncObject{})
	if err != nil {
		return fmt.Errorf("watch locks: %w", err)
	}
	return c.locker.Watch(ctx, informer)
}

// watchReferences has items looked at again when what they use changes.
func (c *Controller) watchReferences(ctx context.Context) error {
	r := &references{
		router: c.router, reader: c.manager.GetCache(), selective: !c.options.Selectors.Empty(), log: c.options.Log,
	}
	for kind, object := range map[string]client.Object{kindTarget: &v1alpha1.Target{}, kindContext: &v1alpha1.Context{}} {
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
