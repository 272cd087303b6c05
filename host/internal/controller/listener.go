package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Changed implements plugin.Listener.
func (c *Controller) Changed() {
	select {
	case c.changes <- struct{}{}:
	default: // there is a signal already
	}
}

// WakeUp implements plugin.Listener.
func (c *Controller) WakeUp(p *plugin.Plugin, namespace, name string) {
	c.router.WakeUp(p.Name(), namespace, name)
}

// Needs implements plugin.Listener: there is a deploy item of the plugin's types or with its hooks.
func (c *Controller) Needs(p *plugin.Plugin) bool {
	info := p.Info()
	return !c.ready.Load() || c.options.Items.Has(slices.Concat(info.Types, info.HookedTypes))
}

// WatchedItems implements plugin.Listener.
func (c *Controller) WatchedItems(ctx context.Context, p *plugin.Plugin) ([]sdk.WatchedItem, error) {
	return c.watched.List(ctx, p.Name())
}

// CallFor implements plugin.Listener.
func (c *Controller) CallFor(
	ctx context.Context, p *plugin.Plugin, item types.NamespacedName,
) (plugin.Call, error) {
	return c.watched.CallFor(ctx, p.Name(), item)
}

// HTTPHooksChanged retries the jobs with an error after a change of the HTTP hooks of their types. It does not block.
func (c *Controller) HTTPHooksChanged(types []v1alpha1.DeployItemType) {
	c.router.HTTPHooksChanged(types)
}

// Freed implements lock.Listener.
func (c *Controller) Freed(key lock.Key) { c.router.Freed(key) }

// Lost implements lock.Listener.
func (c *Controller) Lost(key lock.Key) {
	c.options.Observed.Report(telemetry.Job{Plugin: key.Plugin, Item: key.Item, UID: key.UID}, telemetry.Left{})
	c.router.Lost(key)
}
