package controller

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// cached returns an item of the cache, and the hooks of its type; nil for an item of other hosts. The item must not be
// changed.
func (r *reconciler) cached(ctx context.Context, req reconcile.Request) (*v1alpha1.DeployItem, pluginhook.Set, error) {
	item := &v1alpha1.DeployItem{}
	if err := r.cache.Get(ctx, req.NamespacedName, item, client.UnsafeDisableDeepCopy); err != nil {
		r.forget(req.NamespacedName, apierrors.IsNotFound(err))
		return nil, pluginhook.Set{}, client.IgnoreNotFound(err)
	}
	if !r.serves(item.Spec.Type) {
		r.forget(req.NamespacedName, false)
		return nil, pluginhook.Set{}, nil
	}
	hooks := r.hooksFor(item.Spec.Type)
	possible, err := r.responsibility.possible(ctx, item)
	if err != nil || !possible && !hooks.Has(sdkhook.DuringResponsibilityCheck) {
		r.forget(req.NamespacedName, false)
		return nil, pluginhook.Set{}, err
	}
	return item, hooks, nil
}

// inFull returns an item in full, as it has arrived or was written here, or else read, and its memory. There is no item
// if it is gone or has another type, and after an error: that of the read, lock.ErrHeld or itemclient.ErrOutdated.
func (r *reconciler) inFull(
	ctx context.Context, cached *v1alpha1.DeployItem, known itemstate.Entry,
) (itemstate.Content, itemstate.Entry, error) {
	full, err := r.takeOrRead(ctx, cached, known)
	if full.Item == nil || err != nil {
		return itemstate.Content{}, known, err
	}
	if !r.serves(full.Item.Spec.Type) { // it was created anew, and there is an event
		r.forget(client.ObjectKeyFromObject(cached), false)
		return itemstate.Content{}, known, nil
	}
	if full.Item.UID != cached.UID {
		known = itemstate.Entry{}
	}
	if full.Own {
		return full, known, nil
	}
	if err := r.verifyHeld(ctx, full.Item); err != nil {
		return itemstate.Content{}, known, err
	}
	return full, known, nil
}

// takeOrRead takes an item in full from the contents, or reads it; it has no item if that is gone.
func (r *reconciler) takeOrRead(
	ctx context.Context, cached *v1alpha1.DeployItem, known itemstate.Entry,
) (itemstate.Content, error) {
	key, version := client.ObjectKeyFromObject(cached), cached.ResourceVersion
	if known.Knows(version) {
		version = known.Version
	}
	if full, ok := r.contents.Take(key, cached.UID, version); ok && !known.Outdated {
		return full, nil
	}
	item, err := r.items.Read(ctx, key)
	if err != nil {
		r.forget(key, apierrors.IsNotFound(err))
		if apierrors.IsNotFound(err) {
			return itemstate.Content{}, nil
		}
		return itemstate.Content{}, fmt.Errorf("read deploy item: %w", err)
	}
	return itemstate.Content{Item: item}, nil
}

// verifyHeld checks that a lock held here was not taken over before the item was read or arrived: the new holder may
// have written it. The error is lock.ErrHeld, or itemclient.ErrOutdated if the lock was lost.
func (r *reconciler) verifyHeld(ctx context.Context, item *v1alpha1.DeployItem) error {
	key := lockKey(r.name, item)
	if !r.locks.Holds(key) {
		return nil
	}
	held, err := r.locks.Acquire(ctx, key)
	if err != nil {
		return err
	}
	if err = held.Verify(ctx); errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	}
	return err
}

// serves reports whether this reconciler's plugin serves a type.
func (r *reconciler) serves(itemType v1alpha1.DeployItemType) bool {
	p := r.plugins.For(itemType)
	return p != nil && p.Name() == r.name
}

// hooksFor returns the hooks for a type of deploy items.
func (r *reconciler) hooksFor(itemType v1alpha1.DeployItemType) pluginhook.Set {
	return pluginhook.Set{Plugins: r.plugins.Hooking(itemType), Timeout: r.options.HookTimeout, Targets: r.targets}
}

// forget drops the state of an item. gone: the item and so its lock do not exist.
func (r *reconciler) forget(key types.NamespacedName, gone bool) {
	r.memory.Forget(key)
	r.contents.Drop(key)
	if gone {
		r.locks.Forget(r.name, key)
	}
}

// changes shows a job the changes of its item.
type changes struct {
	cache client.Reader
	*itemstate.Memory
}

// IsCurrent implements job.Changes.
func (c changes) IsCurrent(ctx context.Context, item *v1alpha1.DeployItem) bool {
	cached := &v1alpha1.DeployItem{}
	err := c.cache.Get(ctx, client.ObjectKeyFromObject(item), cached, client.UnsafeDisableDeepCopy)
	return err == nil && cached.UID == item.UID && !contract.Newer(cached.ResourceVersion, item.ResourceVersion)
}
