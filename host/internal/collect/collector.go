// Package collect has plugins remove their holdings for deleted deploy items and ended jobs.
//
// A plugin may keep holdings outside of the targets of its items, and its Delete removes them. An item can go without
// Delete, and a job can end without a word of the plugin; then nothing else would ever remove them.
//
// Nothing is concluded from a cache, because it may lag: an item is gone when the API server says so, or has another
// one of its name. A UID never comes back, so that this stays true. A job is over when the API server shows no running
// job for its item: the plugin cannot be at work for an earlier job of it. So nothing is taken from a running job, nor
// from a later one, begun during the round.
package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// settleTime comes between the loss of an item or a job and the question: more losses often follow, and a running
	// call for the item comes to its end.
	settleTime = time.Second
	// minRetry and maxRetry bound the growing pause after a round with an error or with holdings to remove: removing
	// them may take its time.
	minRetry = 2 * time.Second
	maxRetry = 10 * time.Minute
	// workers is how many plugins are asked at the same time.
	workers = 4
	// jitter is the relative deviation from the interval, so that many hosts of one cluster do not ask together.
	jitter = 0.1
)

// Plugin is a plugin with holdings; see plugin.Plugin.
type Plugin interface {
	Name() string
	Info() plugin.Info
	Holdings(ctx context.Context) ([]sdk.Holding, error)
	Collect(ctx context.Context, holdings []sdk.Holding) error
}

// Options are the settings of a Collector. All are required.
type Options struct {
	// Cache has the watch of deploy items.
	Cache cache.Cache
	// Live reads deploy items without a cache.
	Live client.Reader
	// Plugins returns the plugins with the capability, running or not.
	Plugins func() []Plugin
	// Elected reports whether this replica has a plugin collect.
	Elected func(plugin string) bool
	// Interval is the longest pause between two rounds of each plugin.
	Interval time.Duration
	// Random returns numbers from [0, 1).
	Random func() float64
	Log    *slog.Logger
}

// Collector asks plugins for their holdings, and has them remove the obsolete ones: soon after an item has gone or a
// job has ended without them, and once in each interval. It may be used concurrently.
type Collector struct {
	Options

	queue workqueue.TypedRateLimitingInterface[string] // names of plugins
}

var (
	_ manager.Runnable               = (*Collector)(nil)
	_ manager.LeaderElectionRunnable = (*Collector)(nil)
)

// New returns a Collector. It does nothing before its Start.
func New(o Options) *Collector {
	return &Collector{Options: o, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry))}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the election is for each plugin.
func (c *Collector) NeedLeaderElection() bool { return false }

// JobEnded announces a job that has ended without a word of its plugin and may have left holdings. It does not block.
func (c *Collector) JobEnded(plugin string) { c.queue.AddAfter(plugin, settleTime) }

// LookAgain has all plugins asked soon: this replica may just have been elected, or there may be another plugin. It
// does not block.
func (c *Collector) LookAgain() {
	for _, p := range c.Plugins() {
		c.queue.AddAfter(p.Name(), settleTime)
	}
}

// Start collects until ctx ends. It blocks until then.
func (c *Collector) Start(ctx context.Context) error {
	informer, err := c.Cache.GetInformer(ctx, &v1alpha1.DeployItem{})
	if err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: c.deleted})
	if err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	c.schedule(ctx)
	c.queue.ShutDown()
	working.Wait()
	if err := informer.RemoveEventHandler(registration); err != nil {
		return fmt.Errorf("end the watch of deploy items: %w", err)
	}
	return nil
}

// deleted queues the plugins of a deleted item's type.
func (c *Collector) deleted(object any) {
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	item, ok := object.(*v1alpha1.DeployItem)
	if !ok {
		return
	}
	for _, p := range c.Plugins() {
		if slices.Contains(p.Info().Types, item.Spec.Type) {
			c.queue.AddAfter(p.Name(), settleTime)
		}
	}
}

// schedule puts plugins into the queue when it is time to ask them, until ctx ends.
func (c *Collector) schedule(ctx context.Context) {
	c.LookAgain()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.pause()):
			for _, p := range c.Plugins() {
				c.queue.Add(p.Name())
			}
		}
	}
}

// pause is the time until all are asked again.
func (c *Collector) pause() time.Duration {
	return time.Duration(float64(c.Interval) * (1 - jitter + 2*jitter*c.Random()))
}

// next asks the next plugin; false when the queue is shut down.
func (c *Collector) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	all := c.Plugins()
	i := slices.IndexFunc(all, func(p Plugin) bool { return p.Name() == name })
	if i < 0 || !c.Elected(name) {
		c.queue.Forget(name)
		return true
	}
	again, err := c.collect(ctx, all[i])
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, plugin.ErrNotRunning):
		c.Log.Debug("plugin is not running; asking for obsolete holdings later", "plugin", name)
	default:
		c.Log.Warn("could not remove obsolete holdings of a plugin; retrying",
			"plugin", name, "error", err.Error())
	}
	if again || err != nil {
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}
