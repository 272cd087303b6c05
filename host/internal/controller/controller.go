package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/exports"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/objecthealth"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/watched"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// pickUpWorkers is how many items of one plugin can be reconciled at once while all its slots are taken.
const pickUpWorkers = 4

// Controller reconciles deploy items. It adds a queue and workers for each plugin once its types are known.
type Controller struct {
	options Options
	manager manager.Manager
	plugins intake.Plugins
	memory  *itemstate.Memory
	// contents are shared by all plugins.
	contents *itemstate.Contents
	router   *intake.Router
	locks    locks
	targets  *target.Resolver
	watched  *watched.Items
	health   *objecthealth.Checker // nil beside a Landscaper
	rules    contract.Rules
	clock    clock.WithTicker
	changes  chan struct{}

	ready atomic.Bool

	mu    sync.Mutex
	slots map[string]*slots.Slots // by name of the plugin
}

var (
	_ plugin.Listener                = (*Controller)(nil)
	_ lock.Listener                  = (*Controller)(nil)
	_ manager.Runnable               = (*Controller)(nil)
	_ manager.LeaderElectionRunnable = (*Controller)(nil)
)

// New returns a Controller for a manager before its start.
func New(mgr manager.Manager, options Options) *Controller {
	return newController(mgr, intake.PluginSet{Set: options.Plugins}, options)
}

func newController(mgr manager.Manager, plugins intake.Plugins, options Options) *Controller {
	options.MaxCrashes = cmp.Or(options.MaxCrashes, job.DefaultMaxCrashes)
	c := &Controller{
		options:  options,
		manager:  mgr,
		plugins:  plugins,
		memory:   itemstate.NewMemory(),
		contents: itemstate.NewContents(),
		locks:    lock.Off{},
		clock:    clock.RealClock{},
		changes:  make(chan struct{}, 1),
		slots:    map[string]*slots.Slots{},
	}
	if options.Locks != nil {
		c.locks = options.Locks
	}
	c.rules = rules(options, c.clock)
	c.targets = target.NewResolver(mgr.GetCache(), mgr.GetAPIReader(), target.Options{
		Tokens: mgr.GetClient(), User: target.UserOf(mgr.GetClient()), Cluster: mgr.GetConfig(),
		ServiceAccount: options.TargetServiceAccount, DefaultContext: options.Standalone,
		Keeps: options.Keeper != nil,
	})
	responsible := newResponsibility(mgr.GetCache(), options).possible
	c.watched = &watched.Items{
		Plugins: plugins, Cached: options.Items, Live: itemclient.New(mgr.GetClient(), mgr.GetAPIReader()),
		Memory: c.memory, Locks: c.locks, Targets: c.targets, Responsible: responsible, ShowsHealth: options.Standalone,
	}
	var woken func(item types.NamespacedName)
	if options.Standalone {
		c.health = objecthealth.New(objecthealth.Options{
			Plugins: plugins, Cached: options.Items, Cache: mgr.GetCache(),
			Items: c.watched.Live, Targets: c.targets,
			Responsible: responsible, Clock: c.clock, Log: options.Log,
		})
		woken = c.health.Woken
	}
	c.router = intake.NewRouter(intake.Options{
		Plugins: plugins, Locks: c.locks, Memory: c.memory, Items: options.Items, Rules: c.rules,
		Repaired: options.Repaired, Woken: woken, Log: options.Log,
	})
	options.Items.OnArrival(c.arrived)
	return c
}

// arrived keeps an item with work, so that its reconcile need not read it.
func (c *Controller) arrived(item *v1alpha1.DeployItem) {
	switch {
	case c.rules.NeedsNothing(item) && !itemcache.HasSchedule(item.Spec.Config):
		c.contents.Drop(client.ObjectKeyFromObject(item))
	case c.plugins.For(item.Spec.Type) != nil:
		c.contents.Put(itemstate.Content{Item: item})
	}
}

// Workers returns for each plugin how many calls are running, how many may run, and how many items are queued for one.
func (c *Controller) Workers() []telemetry.Workers {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []telemetry.Workers
	for _, name := range slices.Sorted(maps.Keys(c.slots)) {
		s := c.slots[name]
		all = append(all, telemetry.Workers{Plugin: name, Used: s.Used(), Max: s.Size(), Queued: s.Waiting()})
	}
	return all
}

// Remembered is the number of deploy items in the memory.
func (c *Controller) Remembered() int { return c.memory.Size() }

// Unserved is the number of deploy items without a plugin for their types; zero as long as that is unknown.
func (c *Controller) Unserved() int {
	if !c.ready.Load() || !c.plugins.Started() {
		return 0
	}
	return c.router.CountUnserved()
}

// Ready says why the Controller has not begun to work; nil once it has listed the deploy items.
func (c *Controller) Ready() error {
	if !c.ready.Load() {
		return errors.New("the deploy items are being listed")
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica is active.
func (c *Controller) NeedLeaderElection() bool { return false }

// Start watches deploy items and reconciles them. It blocks until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	references := &intake.References{
		Router: c.router, Reader: c.manager.GetCache(), Log: c.options.Log,
		All: c.options.Standalone || !c.options.Selectors.Empty(), Repaired: c.options.Repaired,
	}
	if err := references.Watch(ctx, c.manager.GetCache()); err != nil {
		return err
	}
	if err := c.watchLocks(ctx); err != nil {
		return err
	}
	informer, err := c.manager.GetCache().GetInformer(ctx, &v1alpha1.DeployItem{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	if _, err := informer.AddEventHandler(c.router); err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil // the host stops
	}
	c.options.Log.Info("listed all deploy items")
	debug.FreeOSMemory() // the list has taken several times what is kept of it
	c.ready.Store(true)
	return c.servePlugins(ctx)
}

// servePlugins follows the plugins until ctx ends.
func (c *Controller) servePlugins(ctx context.Context) error {
	if c.options.HTTPHooks != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-c.options.HTTPHooks.Synced():
		}
	}
	if c.options.Begin != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-c.options.Begin:
		}
	}
	if c.health != nil {
		var checks sync.WaitGroup
		checks.Go(func() { c.health.Run(ctx) })
		defer checks.Wait()
	}
	f := &followed{asked: map[string]string{}}
	for {
		if err := c.followPlugins(f); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changes:
		}
	}
}

// followed are the plugins as followPlugins has seen them last.
type followed struct {
	// asked has the ShouldReconcile hooks by serving plugin.
	asked map[string]string
	// processes are the serving plugins with a process.
	processes []string
	// started: all plugins have tried to start.
	started bool
}

// followPlugins adds queues and workers for new plugins. It has items reconciled after a change of their
// ShouldReconcile hooks, and after the start of a plugin that they wait for.
func (c *Controller) followPlugins(f *followed) error {
	running, standby := c.plugins.Running(), c.plugins.Standby()
	var atWork, processes []string
	for _, p := range c.plugins.Serving() {
		name := p.Name()
		if running[name] {
			atWork = append(atWork, name)
		}
		if running[name] && !standby[name] {
			processes = append(processes, name)
		}
		var hooks []string
		for _, t := range p.Info().Types {
			hooks = append(hooks, pluginhook.Set{Plugins: c.plugins.Hooking(t)}.Asking())
		}
		before, served := f.asked[name]
		f.asked[name] = strings.Join(hooks, ";")
		switch {
		case !served:
			if err := c.addPlugin(p); err != nil {
				return err
			}
			c.served(p.Info().Types)
		case f.asked[name] != before:
			c.router.Refill(name)
		}
	}
	if !f.started && c.plugins.Started() {
		f.started = true
		c.router.CountUnserved() // logs them
		c.served(nil)
	}
	c.locks.Serve(atWork)
	c.router.PluginsRun(running)
	if c.health != nil {
		c.health.Started(slices.DeleteFunc(slices.Clone(processes), func(name string) bool {
			return slices.Contains(f.processes, name)
		}))
	}
	f.processes = processes
	return nil
}

func (c *Controller) served(types []v1alpha1.DeployItemType) {
	if c.options.Served != nil {
		c.options.Served(types)
	}
}

// addPlugin adds the queue and the workers of a plugin.
func (c *Controller) addPlugin(p intake.Deployer) error {
	name := p.Name()
	limits, own := c.options.Limits[name], p.Info().Limits
	calls := hostside.Lowest(cmp.Or(limits.Workers, c.options.Workers), own.MaxCalls)
	pluginSlots := slots.New(calls, hostside.Lowest(limits.WorkersPerTarget, own.MaxCallsPerTarget), c.clock.Now)
	c.mu.Lock()
	c.slots[name] = pluginSlots
	c.mu.Unlock()
	r := newReconciler(parts{
		plugin: p, options: c.options,
		cache: c.manager.GetCache(), items: itemclient.New(c.manager.GetClient(), c.manager.GetAPIReader()),
		exports: exports.New(c.manager.GetClient()),
		targets: c.targets, plugins: c.plugins, router: c.router, memory: c.memory, contents: c.contents,
		slots: pluginSlots, locks: c.locks, recorder: itemevents.New(c.manager.GetEventRecorder("pergola")),
		clock: c.clock, random: rand.Float64, newJobID: uuid.NewString,
		log: c.options.Log.With("plugin", name),
	})
	return c.add("plugin-"+name, calls+pickUpWorkers, r, func(_ context.Context, q intake.Queue) error {
		c.router.Attach(name, q)
		return nil
	})
}

// add adds a queue whose only source is the router.
func (c *Controller) add(
	name string, workers int, r reconcile.Reconciler, attach func(context.Context, intake.Queue) error,
) error {
	everyReplica := false
	options := controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		NeedLeaderElection:      &everyReplica,
		CacheSyncTimeout:        2 * time.Minute,
		// The pauses are short, so that items are reconciled soon after an outage of the API server.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			contract.MinPoll, joberror.MaxRetry),
		LogConstructor: func(req *reconcile.Request) logr.Logger {
			log := c.manager.GetLogger().WithValues("queue", name)
			if req != nil {
				log = log.WithValues("deployitem", req.String())
			}
			return log
		},
	}
	options.DefaultFromConfig(c.manager.GetControllerOptions())
	ctrl, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return fmt.Errorf("create queue %q: %w", name, err)
	}
	if err := ctrl.Watch(source.Func(attach)); err != nil {
		return fmt.Errorf("create queue %q: %w", name, err)
	}
	if err := c.manager.Add(ctrl); err != nil {
		return fmt.Errorf("start queue %q: %w", name, err)
	}
	return nil
}

// watchLocks returns when the locks of other replicas are known.
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
