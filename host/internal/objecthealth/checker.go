package objecthealth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// pause is the time from a wake-up to its check. All wake-ups of an item within it lead to one check, so that an
	// object that changes all the time costs no more than that.
	pause = 2 * time.Second
	// maxPause bounds the growing pause after an error. The last of warnAfter errors in a row is a warning in the log.
	maxPause, warnAfter = 10 * time.Minute, 12
	// perSecond bounds the checks of all items in the long run, workers those at once.
	perSecond, workers = 20, 4
	// timeout bounds one check.
	timeout = 30 * time.Second
)

// Options of a Checker. All are required.
type Options struct {
	Plugins intake.Plugins
	// Cached and Cache have the slim items.
	Cached  *itemcache.Source
	Cache   client.Reader
	Items   *itemclient.Client
	Targets *target.Resolver
	// Responsible reports whether this host may be responsible for an item.
	Responsible func(ctx context.Context, item *v1alpha1.DeployItem) (bool, error)
	Clock       clock.WithTicker
	Log         *slog.Logger
}

// Checker has plugins look at deployed items.
type Checker struct {
	Options
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	limiter workqueue.TypedRateLimiter[types.NamespacedName]
	pace    *rate.Limiter
}

// New returns a Checker. It works during Run.
func New(options Options) *Checker {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](pause, maxPause)
	return &Checker{
		Options: options, pace: rate.NewLimiter(perSecond, perSecond), limiter: limiter,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: options.Clock}),
	}
}

// Woken has an item checked soon, at the request of its plugin. It does not block.
func (c *Checker) Woken(item types.NamespacedName) { c.queue.AddAfter(item, pause) }

// Started has the items of plugins checked that show unhealthy objects: a new process has no news of them. It does not
// block. An item with errors keeps its pause, because its check may be the end of the plugin.
func (c *Checker) Started(plugins []string) {
	if len(plugins) == 0 {
		return
	}
	c.Cached.All(func(item *v1alpha1.DeployItem) {
		key := client.ObjectKeyFromObject(item)
		if !contract.IsUnhealthy(item) || c.limiter.NumRequeues(key) > 0 {
			return
		}
		if p := c.Plugins.For(item.Spec.Type); p != nil && slices.Contains(plugins, p.Name()) {
			c.Woken(key)
		}
	})
}

// Run checks items until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	all.Wait()
}

// next checks the next item. It reports whether there may be another one.
func (c *Checker) next(ctx context.Context) bool {
	item, over := c.queue.Get()
	if over {
		return false
	}
	defer c.queue.Done(item)
	err := c.check(ctx, item)
	switch {
	case err == nil:
		c.queue.Forget(item)
	case ctx.Err() != nil:
	default:
		c.queue.AddRateLimited(item)
		level := slog.LevelDebug
		if c.limiter.NumRequeues(item) == warnAfter {
			level = slog.LevelWarn
		}
		c.Log.Log(ctx, level, "the health of a deploy item's objects is not known; it is checked again",
			"deployitem", item.String(), "error", err.Error())
	}
	return true
}

// check shows the health of an item's objects in its status. An item with a job under way is left to the job.
func (c *Checker) check(ctx context.Context, key types.NamespacedName) error {
	cached := &v1alpha1.DeployItem{}
	if err := c.Cache.Get(ctx, key, cached, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if c.checkerOf(cached) == nil {
		return nil
	}
	if possible, err := c.Responsible(ctx, cached); err != nil || !possible {
		return err
	}
	if err := c.pace.Wait(ctx); err != nil {
		return fmt.Errorf("wait for the turn of the deploy item: %w", err)
	}
	item, err := c.Items.Read(ctx, key)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	p := c.checkerOf(item)
	if p == nil {
		return nil
	}
	lacks, err := c.ask(ctx, p, item)
	if err != nil {
		return err
	}
	return c.Items.UpdateStatus(ctx, item, func(item *v1alpha1.DeployItem) {
		contract.ShowHealth(item, lacks, c.Clock.Now())
	})
}

// checkerOf returns the plugin for the check of an item; nil if the item has no health to check.
func (c *Checker) checkerOf(item *v1alpha1.DeployItem) intake.Deployer {
	p := c.Plugins.For(item.Spec.Type)
	if p == nil || !p.Info().Capabilities.CheckHealth || !contract.IsDeployed(item) {
		return nil
	}
	return p
}

// ask returns what the objects of an item lack, by its plugin; empty if they are healthy.
func (c *Checker) ask(ctx context.Context, p intake.Deployer, item *v1alpha1.DeployItem) (lacks string, err error) {
	call, err := plugin.CallFor(ctx, p.Info().Capabilities, c.Targets, item)
	if err != nil {
		return "", err
	}
	call.Deadline = c.Clock.Now().Add(timeout)
	outcome, err := p.Call(ctx, plugin.CheckHealth, call, &observer{c.Targets, item.Namespace})
	switch {
	case err != nil:
		return "", err
	case outcome.Refused() != nil:
		return "", outcome.Refused()
	case outcome.InProgress != nil:
		return outcome.InProgress.WaitingFor, nil
	}
	errs := make([]error, 0, len(outcome.Errors))
	for _, e := range outcome.Errors {
		errs = append(errs, e)
	}
	return "", errors.Join(errs...)
}
