package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// classifier reads the items whose metadata does not repeat their type, each once.
type classifier struct {
	live   client.Reader
	router *router
}

var _ reconcile.Reconciler = (*classifier)(nil)

func (c *classifier) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	item := &v1alpha1.DeployItem{}
	if err := c.live.Get(ctx, req.NamespacedName, item); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.router.forgetType(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read deploy item: %w", err)
	}
	c.router.classify(item)
	return reconcile.Result{}, nil
}
