package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newSecretMetadata() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// watchLocks has the locks of others known before anything is done.
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

// watchReferences has items looked at again when what they use changes.
func (c *Controller) watchReferences(ctx context.Context) error {
	r := &references{
		router: c.router, reader: c.manager.GetCache(), log: c.options.Log,
		all: c.options.Standalone || !c.options.Selectors.Empty(),
	}
	for kind, object := range map[string]client.Object{
		kindTarget: &v1alpha1.Target{}, kindContext: &v1alpha1.Context{}, kindSecret: newSecretMetadata(),
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
