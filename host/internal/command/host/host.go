package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/collect"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/scope"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/host/internal/standalone"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// launch is the input of a host: command line, configuration and log.
type launch struct {
	flags    *hostFlags
	settings *config.HostConfiguration
	version  string
	log      *slog.Logger
	level    slog.Level
}

// run runs the host until ctx ends.
func run(ctx context.Context, l *launch) (err error) {
	if l.log, l.level, err = newLogger(l.settings.Log); err != nil {
		return err
	}
	cluster, err := clusterConfig(l.flags.kubeconfig, l.version, l.settings.Client)
	if err != nil {
		return err
	}
	podCluster, err := clusterConfig(cmp.Or(l.flags.hostKubeconfig, l.flags.kubeconfig), l.version, config.Client{})
	if err != nil {
		return err
	}
	if err := l.awaitDefinitions(ctx, cluster); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was stopped before it began
		}
		return err
	}
	replicas, err := joinReplicas(ctx, podCluster, ownPod(), l.settings, l.flags.standalone, l.log)
	if err != nil {
		return err
	}
	h := &host{
		launch: l, replicas: replicas, deployItems: &deployItems{}, telemetry: newTelemetry(), watches: newWatches(),
	}
	if err := h.setUp(ctx, cluster, podCluster); err != nil {
		return errors.Join(err, h.discard(ctx))
	}
	return h.run(ctx)
}

// host is a host process.
type host struct {
	*launch

	replicas    *replicas
	manager     manager.Manager
	items       *itemcache.Source
	plugins     *plugin.Set
	deployItems *deployItems
	httpHooks   *httphook.Registrations
	extras      extras
	telemetry   hostTelemetry
	watches     *watches
	pod         podEvents
	stopping    atomic.Bool
}

// deployItems is the controller of DeployItems. Plugins and locks have it as their listener before it is complete.
type deployItems struct{ *controller.Controller }

// extras are the controllers beside the controller of DeployItems.
type extras struct {
	// jobs is nil without standalone mode.
	jobs *standalone.Setter
	// keeper is nil if references are not kept.
	keeper    *inuse.Keeper
	leftovers *collect.Collector
	// scope is nil for a host of all namespaces.
	scope *scope.Watcher
}

// setUp creates all parts of the host, and starts none.
func (h *host) setUp(ctx context.Context, cluster, podCluster *rest.Config) error {
	var err error
	h.manager, h.items, err = newManager(cluster, h.settings.Namespaces,
		h.settings.Timeouts.Shutdown.Duration+lastWrites, h.watches, h.log)
	if err != nil {
		return err
	}
	h.pod.self, h.pod.log = ownPod(), h.log
	if h.pod.client, err = client.New(podCluster, client.Options{Scheme: h.manager.GetScheme()}); err != nil {
		return fmt.Errorf("connect to the cluster of the pods: %w", err)
	}
	selectors, errs := selector.Compile(h.settings.TargetSelectors, nil)
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	if err := h.registerHTTPHooks(); err != nil {
		return err
	}
	if err := h.trace(ctx); err != nil {
		return err
	}
	if err := h.openPlugins(podCluster); err != nil {
		return err
	}
	if err := h.replicas.lock(h.manager, h.deployItems, h.settings.LockPrefix); err != nil {
		return err
	}
	var begin <-chan struct{}
	if h.flags.standalone {
		if h.replicas.alone() {
			if begin, err = h.workAlone(); err != nil {
				return err
			}
		}
		if err := h.setJobs(); err != nil { //nolint:contextcheck // a cache answers from memory
			return err
		}
	}
	if err := h.keepReferences(ctx); err != nil {
		return err
	}
	options := h.controllerOptions(selectors)
	options.Begin = begin
	h.deployItems.Controller = controller.New(h.manager, options)
	if err := errors.Join(h.collectLeftovers(), h.watchNamespaces(), h.add(h.deployItems.Controller)); err != nil {
		return err
	}
	return h.measure(ctx)
}

func (h *host) controllerOptions(selectors selector.Selectors) controller.Options {
	options := controller.Options{
		Plugins:              h.plugins,
		Locks:                h.replicas.locker,
		Identity:             h.settings.Identity,
		Workers:              h.settings.Workers,
		Limits:               map[string]controller.Limits{},
		AbortTimeout:         h.settings.Timeouts.Abort.Duration,
		MaxCrashes:           h.settings.MaxPluginCrashes,
		HookTimeout:          h.settings.Timeouts.Hook.Duration,
		MinimumInterval:      h.settings.ContinuousReconcile.MinimumInterval.Duration,
		Jitter:               h.settings.ContinuousReconcile.Jitter.Duration,
		HTTPHooks:            h.httpHooks,
		Selectors:            selectors,
		Standalone:           h.flags.standalone,
		TargetServiceAccount: h.settings.TargetServiceAccount,
		Items:                h.items,
		JobEnded:             func(plugin string) { h.extras.leftovers.JobEnded(plugin) },
		Served:               h.served,
		Observed:             h.telemetry.stream(),
		Log:                  h.log,
	}
	for name, p := range h.settings.Plugins {
		options.Limits[name] = controller.Limits{
			Workers: p.Workers, WorkersPerTarget: p.WorkersPerTarget, DefaultTimeout: p.DefaultTimeout.Duration,
		}
	}
	if h.extras.keeper != nil {
		options.Keeper = h.extras.keeper
	}
	if h.extras.jobs != nil {
		options.Pauses, options.Repaired = h.pauses(), h.extras.jobs.Repaired
	}
	return options
}

// add adds a runnable to the manager.
func (h *host) add(runnable manager.Runnable) error {
	if err := h.manager.Add(runnable); err != nil {
		return fmt.Errorf("set up the host: %w", err)
	}
	return nil
}

// discard releases the resources of a host without a run.
func (h *host) discard(ctx context.Context) error {
	err := h.replicas.abandon(ctx)
	if h.plugins != nil {
		err = errors.Join(err, h.plugins.Close())
	}
	h.telemetry.tracer.Close(context.WithoutCancel(ctx)) // ctx may have ended
	return err
}

// The grace periods of standalone.Options: for another installation, and for a replica with other plugins.
const (
	unservedGrace           = 2 * time.Second
	unservedGraceOfReplicas = time.Minute
)

// workAlone has a standalone host without locks wait for the end of another one with the same items. Hosts with other
// Targets or other plugins have other items.
func (h *host) workAlone() (begin <-chan struct{}, err error) {
	group, err := groupOf(h.settings, true)
	if err != nil {
		return nil, err
	}
	programs, err := os.ReadDir(h.flags.pluginDir)
	if err != nil && h.flags.pluginDir != "" {
		return nil, fmt.Errorf("read plugin directory: %w", err)
	}
	for _, program := range programs {
		group += " " + program.Name()
	}
	group += " " + strings.Join(h.settings.PluginFiles, " ")
	return h.replicas.workAlone(h.manager, h.settings.Namespaces, group, h.settings.Timeouts.Lease.Duration)
}

// pauses are those before the next job of a failed item.
func (h *host) pauses() contract.Pauses {
	first, wanted, err := h.settings.Retries.First.Parse()
	if err != nil || !wanted { // it is validated
		first = 0
	}
	return contract.Pauses{First: first, Longest: h.settings.Retries.Longest.Duration}
}

// setJobs adds the controller of standalone mode.
func (h *host) setJobs() error {
	options, err := standaloneOptions(h.settings)
	if err != nil {
		return err
	}
	options.Elected = func(t v1alpha1.DeployItemType) bool {
		if p := h.plugins.For(t); p != nil {
			return h.replicas.electedFor(p.Name())
		}
		return h.replicas.elected() // reports types without a plugin
	}
	options.Pauses = h.pauses()
	options.CompareInterval = h.settings.ContinuousReconcile.DefaultInterval.Duration
	options.Compares = func(t v1alpha1.DeployItemType) bool {
		p := h.plugins.For(t)
		return p != nil && p.Info().Capabilities.Diff
	}
	options.Unserved = h.plugins.Unserved
	options.UnservedGrace = func() time.Duration {
		if !h.replicas.alone() && h.replicas.OthersServeMore() {
			return unservedGraceOfReplicas
		}
		return unservedGrace
	}
	serves := func(t v1alpha1.DeployItemType) bool { return h.plugins.For(t) != nil }
	setter, err := standalone.Setup(h.manager, serves, h.log, options)
	if err != nil {
		return err
	}
	h.extras.jobs = setter
	h.replicas.onElection(setter.ReplicasChanged)
	return nil
}

// run starts the host, and stops its parts in reverse order. It ends with ctx or the replacement of this replica.
func (h *host) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { h.stopping.Store(true) })()
	pluginsCtx, endPlugins := context.WithCancel(context.WithoutCancel(ctx))
	replicasCtx, endReplicas := context.WithCancel(context.WithoutCancel(ctx))
	pluginsEnded, replicasEnded := make(chan error, 1), make(chan error, 1)
	go func() { pluginsEnded <- h.plugins.Run(pluginsCtx) }()
	go h.pod.run(ctx, h.ready)
	go func() {
		defer stop()
		replicasEnded <- h.replicas.run(replicasCtx)
	}()

	err := h.manage(ctx)
	// The plugins outlive their callers.
	endPlugins()
	err = errors.Join(err, <-pluginsEnded)
	// The Lease outlives the plugins: without it, other replicas take over the locks.
	endReplicas()
	h.telemetry.tracer.Close(context.WithoutCancel(ctx)) // ctx may have ended
	return errors.Join(err, <-replicasEnded)
}

// unsyncedGrace is the time to end for a manager without synced caches.
const unsyncedGrace = 2 * time.Second

// manage runs the manager until ctx ends.
func (h *host) manage(ctx context.Context) error {
	ended := make(chan error, 1)
	// Runnables other than controllers take the logger from the context.
	go func() { ended <- h.manager.Start(ctrl.LoggerInto(ctx, h.manager.GetLogger())) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-h.manager.Elected():
		return <-ended
	case <-time.After(unsyncedGrace):
		// A manager without synced caches spins (https://github.com/kubernetes-sigs/controller-runtime/pull/3440). It has
		// started nothing with an order of stops, and ends with the process.
		h.log.Info("host stops before it has listed all that it watches")
		return nil
	}
}

// ready returns the reason why the host cannot work; nil if it can.
func (h *host) ready() error {
	if h.stopping.Load() { // only running calls are finished
		return errors.New("the host is stopping")
	}
	select {
	case <-h.manager.Elected():
	default:
		return errors.New("the host is starting: it has not listed all that it watches" + h.watches.problems())
	}
	listing := h.deployItems.Ready()
	if listing != nil {
		listing = fmt.Errorf("%w%s", listing, h.watches.problems())
	}
	return errors.Join(h.plugins.Ready(), listing, h.httpHooks.Ready(), h.replicas.ready(), h.namespacesReady())
}

func newLogger(settings config.Log) (*slog.Logger, slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(settings.Level)); err != nil {
		return nil, 0, fmt.Errorf("log.level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewJSONHandler(os.Stderr, options)
	if settings.Format == "text" {
		handler = slog.NewTextHandler(os.Stderr, options)
	}
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	klog.SetSlogLogger(slog.New(handler))
	return slog.New(handler), level, nil
}
