package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// responsibility decides about the responsibility of this host for items, by their Targets.
type responsibility struct {
	cache     client.Reader // Targets
	identity  string
	selectors selector.Selectors
	log       *slog.Logger
}

func newResponsibility(cache client.Reader, options Options) responsibility {
	return responsibility{
		cache: cache, identity: options.Identity, selectors: options.Selectors, log: options.Log,
	}
}

// possible reports whether this host may be responsible for an item.
func (r responsibility) possible(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	selection, err := r.selection(ctx, item)
	// Without the Target a running job goes on, and deployed objects are deleted. If the Target exists, it decides.
	return selection.Responsible || selection.Reason == selector.TargetNotFound, err
}

// sure reports whether this host is responsible for an item in full.
func (r responsibility) sure(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	selection, err := r.selection(ctx, item)
	return selection.Responsible || selection.Reason == selector.TargetNotFound && r.deployedHere(item), err
}

// deployedHere reports whether this host has picked up the item's job, or has deployed the objects to delete.
func (r responsibility) deployedHere(item *v1alpha1.DeployItem) bool {
	if item.Status.Deployer.Identity != r.identity {
		return false
	}
	return contract.IsUnderWay(item) ||
		item.DeletionTimestamp != nil && slices.Contains(item.Finalizers, v1alpha1.Finalizer)
}

// selection applies the selectors to the Target of an item. Without selectors the Target is not read.
func (r responsibility) selection(ctx context.Context, item *v1alpha1.DeployItem) (selector.Selection, error) {
	name, has := contract.TargetOfItem(item)
	if r.selectors.Empty() || !has {
		return r.selectors.Select(has, nil), nil
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
	selection := r.selectors.Select(true, object)
	if !selection.Responsible {
		r.log.Debug("deploy item is not for this host", "deployitem", item.Namespace+"/"+item.Name,
			"reason", selection.Reason, "message", selection.Message)
	}
	return selection, nil
}
