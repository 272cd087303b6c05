package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// pickUpWorkers is how many items of one plugin are picked up, read or written down at the same time when all its
// calls are taken.
const pickUpWorkers = 4

// classifyWorkers is how many items of unknown type are read at the same time.
const classifyWorkers = 4

// Options are the settings of a Controller.
type Options struct {
	// Identity of this installation, for the status of the items. Required.
	Identity string
	// Workers is how many calls of a plugin may be under way. Calls do not wait, so that few suffice. Required.
	Workers int
	// PluginWorkers are the Workers of single plugins, by name.
	PluginWorkers map[string]int
	// AbortTimeout is how long a deployer may take for an abort. Required.
	AbortTimeout time.Duration
	// MaxCrashes is how often a plugin may die in the middle of the calls for one job; with the last the job fails.
	// Zero stands for 3. With 1 every item fails that is in a call when its plugin dies, whichever is to blame.
	MaxCrashes int
	// HookTimeout is how long one call of a plugin's hooks may take. Zero for ever.
	HookTimeout time.Duration
	// MinimumInterval is the time between the beginnings of two jobs of an item, of which the later one is set
	// because hooks, such as a schedule, ask for it. Jitter is how much later than it is due such a job may begin;
	// each item has its own part of it.
	MinimumInterval, Jitter time.Duration
	// HTTPHooks tell which HTTP hooks there are; nil for none.
	HTTPHooks HTTPHooks
	// Selectors choose the items of certain Targets; the zero value takes all.
	Selectors contract.Selectors
	// Standalone: there is no Landscaper. A missing Context of the default name counts as an empty one, as nobody
	// creates it, and an item whose job has failed for lack of something that it uses gets a new one when that is
	// there.
	Standalone bool
	// TargetServiceAccount is the ServiceAccount of its namespace as which each Target of the cluster itself acts;
	// empty if each names its own.
	TargetServiceAccount string
	// JobEnded is told the plugin of each job that has ended without a word of it, such as one whose time was up. It
	// must not block. Nil for nobody.
	JobEnded func(plugin string)
	// Observed passes on what happens to jobs; nil for nobody to hear of it.
	Observed *telemetry.Stream
	// Log is required.
	Log *slog.Logger
}

// Controller carries out deploy items. It is the listener of the plugin set: it adds a queue and workers for each
// plugin when that is known to serve something.
type Controller struct {
	options Options
	manager manager.Manager
	plugins plugins
	memory  *memory
	router  *router
	targets *target.Resolver
	locker  *lock.Locker // nil without locks
	clock   clock.WithTicker
	changes chan struct{}
	onServe func(ctx context.Context, types []v1alpha1.DeployItemType) error
	witness SurveyWitness // nil for none

	ready atomic.Bool

	mu    sync.Mutex
	slots map[string]*slots // by name of the plugin
}

var (
	_ plugin.Listener                = (*Controller)(nil)
	_ lock.Listener                  = (*Controller)(nil)
	_ manager.Runnable               = (*Controller)(nil)
	_ manager.LeaderElectionRunnable = (*Controller)(nil)
)

// New returns a Controller. Before it is added to its manager, SetPlugins gives it the plugins, which in turn need it
// as their listener.
func New(mgr manager.Manager, options Options) *Controller {
	c := &Controller{
		options: options,
		manager: mgr,
		memory:  newMemory(),
		clock:   clock.RealClock{},
		changes: make(chan struct{}, 1),
		slots:   map[string]*slots{},
	}
	c.router = newRouter(c.memory, c.clock.Now)
	c.router.log = options.Log
	targetOptions := []target.Option{
		target.WithTokens(&target.ClientTokenRequester{Client: mgr.GetClient()}, mgr.GetConfig()),
		target.WithServiceAccount(options.TargetServiceAccount),
	}
	if options.Standalone {
		targetOptions = append(targetOptions, target.WithDefaultContext())
	}
	c.targets = target.NewResolver(mgr.GetCache(), mgr.GetAPIReader(), targetOptions...)
	return c
}

// SetPlugins gives the Controller the plugins to call. It is called once, before Start.
func (c *Controller) SetPlugins(set *plugin.Set) {
	c.setPlugins(pluginSet{set})
}

func (c *Controller) setPlugins(p plugins) {
	c.plugins = p
	c.router.plugins = p
}

// SetLocks has the Controller work under locks, which in turn need it as their listener. Without it works as if it
// were the only one. It is called before Start.
func (c *Controller) SetLocks(locker *lock.Locker) {
	c.locker, c.router.locks = locker, locker
}

// OnServe sets a function that is told the types of each plugin that begins to be served, or is again, and none when
// all plugins have come through their first attempt to start. An error ends the Controller. It is called before Start.
func (c *Controller) OnServe(f func(ctx context.Context, types []v1alpha1.DeployItemType) error) {
	c.onServe = f
}

// OnSurvey sets who is told of the items that are there at the start. It is called before Start.
func (c *Controller) OnSurvey(witness SurveyWitness) {
	c.witness = witness
}

// Changed implements plugin.Listener.
func (c *Controller) Changed() {
	select {
	case c.changes <- struct{}{}:
	default: // a change is announced already
	}
}

// WakeUp implements plugin.Listener.
func (c *Controller) WakeUp(p *plugin.Plugin, namespace, name string) {
	c.router.WakeUp(p.Name(), namespace, name)
}

// HTTPHooksChanged tells that other HTTP hooks are called for deploy items of some types: jobs that have met an error
// are tried again. It does not block.
func (c *Controller) HTTPHooksChanged(types []v1alpha1.DeployItemType) { c.router.hooksMended(types) }

// Freed implements lock.Listener.
func (c *Controller) Freed(key lock.Key) { c.router.Freed(key) }

// Lost implements lock.Listener.
func (c *Controller) Lost(key lock.Key) {
	c.options.Observed.Report(telemetry.Job{Plugin: key.Plugin, Item: key.Item, UID: key.UID}, telemetry.Left{})
	c.router.Lost(key)
}

// Workers tells for each plugin how many calls are under way, how many there may be, and how many items are in line
// for one.
func (c *Controller) Workers() []telemetry.Workers {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []telemetry.Workers
	for _, name := range slices.Sorted(maps.Keys(c.slots)) {
		s := c.slots[name]
		all = append(all, telemetry.Workers{Plugin: name, Used: s.used(), Max: s.size, Queued: s.waiting()})
	}
	return all
}

// Remembered is of how many deploy items something is remembered.
func (c *Controller) Remembered() int { return c.memory.size() }

// Unserved is how many deploy items are of types that no plugin serves; none as long as that is not known.
func (c *Controller) Unserved(ctx context.Context) int {
	if !c.ready.Load() || !c.plugins.Started() {
		return 0
	}
	unserved, err := c.router.countUnserved(ctx, c.manager.GetCache())
	if err != nil {
		c.options.Log.Warn("the deploy items that nobody serves were not counted", "error", err.Error())
	}
	return unserved
}

// Ready is why the Controller has not begun to work; nil once it knows the deploy items that are there.
func (c *Controller) Ready() error {
	if !c.ready.Load() {
		return errors.New("the deploy items are being listed")
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica is active.
func (c *Controller) NeedLeaderElection() bool { return false }

// Start watches deploy items and gives each plugin a queue and workers as soon as it is known to serve something. It
// blocks until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	// What a job needs is watched from the start, so that the first one does not wait for it.
	for _, object := range watchedBesides() {
		if _, err := c.manager.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	if err := c.watchReferences(ctx); err != nil {
		return err
	}
	if err := c.watchLocks(ctx); err != nil {
		return err
	}
	informer, err := c.manager.GetCache().GetInformer(ctx, NewMetadata())
	if err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	c.router.hold() // until the end of the survey
	if err := c.addClassifier(); err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(c.router); err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer c.ready.Store(true)
		return c.survey().run(ctx)
	})
	group.Go(func() error { return c.servePlugins(ctx) })
	return group.Wait()
}

// survey returns the survey of the items that are there when the host starts.
func (c *Controller) survey() *survey {
	return &survey{
		live: c.manager.GetAPIReader(), cache: c.manager.GetCache(), router: c.router, witness: c.witness,
		standalone: c.options.Standalone, clock: c.clock, log: c.options.Log,
	}
}

// servePlugins serves each plugin as soon as it is known to serve something, until ctx ends.
func (c *Controller) servePlugins(ctx context.Context) error {
	if c.options.HTTPHooks != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-c.options.HTTPHooks.Synced():
		}
	}
	served, started := map[string]deployer{}, false
	hooks := hookWatch{asked: map[v1alpha1.DeployItemType]string{}}
	for {
		c.knowHooks(&hooks)
		if err := c.follow(ctx, served); err != nil {
			return err
		}
		before := started
		if started = c.plugins.Started(); started && !before {
			if err := c.allStarted(ctx); err != nil {
				return err
			}
		}
		running := c.plugins.Running()
		if err := c.followHooks(ctx, &hooks, running); err != nil {
			return err
		}
		var atWork []string
		for name, p := range served {
			if p != nil && running[name] {
				atWork = append(atWork, name)
			}
		}
		c.router.locks.Serve(atWork)
		c.router.pluginsRun(running)
		select {
		case <-ctx.Done():
			return nil
		case <-c.changes:
		}
	}
}

// follow begins and ends to serve plugins. served are those that have ever been served, by their names; nil for one
// that is not any more. A plugin that is another one than the last time may have been away between two rounds.
func (c *Controller) follow(ctx context.Context, served map[string]deployer) error {
	serving := map[string]bool{}
	for _, p := range c.plugins.Serving() {
		name := p.Name()
		serving[name] = true
		before, ever := served[name]
		if before == p {
			continue
		}
		if err := c.serve(ctx, p, ever); err != nil {
			return err
		}
		served[name] = p
	}
	for name, p := range served {
		if p != nil && !serving[name] { // other replicas may have the plugin
			c.router.locks.ReleaseAll(ctx, name)
			served[name] = nil
		}
	}
	return nil
}

// allStarted tells of the items that nobody serves, now that it is known what is served.
func (c *Controller) allStarted(ctx context.Context) error {
	if _, err := c.router.countUnserved(ctx, c.manager.GetCache()); err != nil || c.onServe == nil {
		return err
	}
	return c.onServe(ctx, nil)
}

// serve begins to serve a plugin, for the first time or again: all items of its types are looked at, whatever has
// happened to them since.
func (c *Controller) serve(ctx context.Context, p deployer, again bool) error {
	var err error
	if again {
		err = c.router.refill(ctx, c.manager.GetCache(), p.Name())
	} else {
		err = c.addPlugin(p.Name())
	}
	if err != nil || c.onServe == nil {
		return err
	}
	return c.onServe(ctx, p.Info().Types)
}

// addPlugin starts the queue and the workers of a plugin.
func (c *Controller) addPlugin(name string) error {
	calls := c.options.Workers
	if n := c.options.PluginWorkers[name]; n > 0 {
		calls = n
	}
	slots := newSlots(calls, c.clock.Now)
	c.mu.Lock()
	c.slots[name] = slots
	c.mu.Unlock()
	r := &reconciler{
		name:         name,
		identity:     c.options.Identity,
		selectors:    c.options.Selectors,
		standalone:   c.options.Standalone,
		abortTimeout: c.options.AbortTimeout,
		maxCrashes:   cmp.Or(c.options.MaxCrashes, defaultMaxCrashes),
		hookTimeout:  c.options.HookTimeout,
		schedule:     schedule{minimum: c.options.MinimumInterval, jitter: c.options.Jitter},
		cache:        c.manager.GetCache(),
		live:         c.manager.GetAPIReader(),
		writer:       &writer{client: c.manager.GetClient()},
		exports:      &exporter{live: c.manager.GetClient()},
		targets:      c.targets,
		plugins:      c.plugins,
		httpHooks:    c.options.HTTPHooks,
		router:       c.router,
		memory:       c.memory,
		slots:        slots,
		locks:        c.router.locks,
		recorder:     c.manager.GetEventRecorder("pergola"),
		clock:        c.clock,
		random:       defaultRandom,
		newJobID:     uuid.NewString,
		jobEnded:     c.options.JobEnded,
		observed:     c.options.Observed,
		log:          c.options.Log.With("plugin", name),
	}
	return c.add("plugin-"+name, calls+pickUpWorkers, r, func(ctx context.Context, q queue) error {
		return c.router.attach(ctx, c.manager.GetCache(), name, q)
	})
}

func (c *Controller) addClassifier() error {
	return c.add("classifier", classifyWorkers, &classifier{live: c.manager.GetAPIReader(), router: c.router},
		func(ctx context.Context, q queue) error {
			return c.router.attachUntyped(ctx, c.manager.GetCache(), q)
		})
}

// add starts a queue whose only source is the router.
func (c *Controller) add(name string, workers int, r reconcile.Reconciler, attach func(context.Context, queue) error) error {
	everyReplica := false
	options := controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		NeedLeaderElection:      &everyReplica,
		CacheSyncTimeout:        2 * time.Minute,
		// What fails because of the API server is tried again soon after that is back.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minPoll, maxRetry),
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
