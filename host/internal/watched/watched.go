// Package watched answers the questions of plugins in their watches: which items they are about, and what a call for
// one of them would get.
package watched

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Items are the items of all watches. All fields are required.
type Items struct {
	Plugins intake.Plugins
	Cached  *itemcache.Source
	Live    *itemclient.Client
	Memory  *itemstate.Memory
	Locks   intake.Locks
	Targets *target.Resolver
	// Responsible reports whether this host may be responsible for an item.
	Responsible func(ctx context.Context, item *v1alpha1.DeployItem) (bool, error)
	// ShowsHealth: wake-ups about deployed items have an effect, as there is no Landscaper.
	ShowsHealth bool
}

// List returns the items of the watch of a plugin, from the cache. They are not kept.
func (i *Items) List(ctx context.Context, pluginName string) (items []sdk.WatchedItem, err error) {
	info := i.infoOf(pluginName)
	i.Cached.All(func(item *v1alpha1.DeployItem) {
		watched, decideErr := i.isWatched(ctx, info, item)
		switch {
		case decideErr != nil:
			err = decideErr
		case watched:
			items = append(items, sdk.WatchedItem{Namespace: item.Namespace, Name: item.Name, Target: targetOf(item)})
		}
	})
	return items, err
}

// targetOf returns the name of the Target of a call for an item; empty for none.
func targetOf(item *v1alpha1.DeployItem) string {
	if move.Of(item).Removes() {
		return move.From(item)
	}
	name, _ := contract.TargetOfItem(item)
	return name
}

// CallFor returns the input of a call for an item of the watch of a plugin, resolved now. The error for an item outside
// of the watch and for a fault of the Target is a plugin.Error.
func (i *Items) CallFor(ctx context.Context, pluginName string, key types.NamespacedName) (plugin.Call, error) {
	info := i.infoOf(pluginName)
	item, err := i.Live.Read(ctx, key)
	if client.IgnoreNotFound(err) != nil {
		return plugin.Call{}, fmt.Errorf("read deploy item: %w", err)
	}
	watched := err == nil
	if watched {
		if watched, err = i.isWatched(ctx, info, item); err != nil {
			return plugin.Call{}, err
		}
	}
	if !watched {
		return plugin.Call{}, plugin.Error{
			Operation: "RequestItem", Reason: hostside.ReasonItemNotWatched,
			Message: fmt.Sprintf("deploy item %q: it is not in the watch of the plugin %q (any more): no job of it is under "+
				"way here, and its health is not shown by this replica", key, pluginName),
		}
	}
	call, err := plugin.CallFor(ctx, info.Capabilities, i.Targets, move.View(item, move.Of(item)))
	if err != nil {
		return plugin.Call{}, joberror.ForPlugin(joberror.FromHost("Prepare", err))
	}
	return call, nil
}

// infoOf returns the description of a serving plugin; the zero Info if it does not serve.
func (i *Items) infoOf(pluginName string) plugin.Info {
	for _, p := range i.Plugins.Serving() {
		if p.Name() == pluginName {
			return p.Info()
		}
	}
	return plugin.Info{}
}

// isWatched reports whether a wake-up for an item would have an effect here: a job of this replica is under way, or the
// item is deployed, its health is shown, and it prefers this replica.
func (i *Items) isWatched(ctx context.Context, info plugin.Info, item *v1alpha1.DeployItem) (bool, error) {
	if !slices.Contains(info.Types, item.Spec.Type) {
		return false, nil
	}
	key := lock.Key{Plugin: info.Name, Item: client.ObjectKeyFromObject(item), UID: item.UID}
	known := i.Memory.Recall(key.Item, item.UID)
	if known.State == itemstate.Running && known.Plugin == info.Name {
		return true, nil
	}
	if !i.ShowsHealth || !info.Capabilities.CheckHealth || !contract.IsDeployed(item) || i.Locks.Rank(key) > 0 {
		return false, nil
	}
	return i.Responsible(ctx, item)
}
