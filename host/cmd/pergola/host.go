package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/collect"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/host/internal/standalone"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newHostCommand() *cobra.Command {
	flags := &hostFlags{}
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Run the host: load the deployers of a directory and carry out DeployItems with them",
		Long: `Run the host: load the deployers of a directory and carry out DeployItems with them.

On SIGTERM the host finishes running calls and ends.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sandbox.Protect(); err != nil {
				return fmt.Errorf("keep plugins from reading the memory of the host: %w", err)
			}
			settings, err := flags.settings(cmd.Flags().Changed, defaultIdentity())
			if err != nil {
				return err
			}
			if len(flags.attach) > 0 && !cmd.Flags().Changed("plugin-dir") {
				flags.pluginDir = ""
			}
			return withAdvice(runHost(cmd.Context(), flags, settings))
		},
	}
	flags.addTo(cmd)
	return cmd
}

// defaultIdentity is the pod's name, or the machine's.
func defaultIdentity() string {
	machine, _ := os.Hostname() // which may have none
	return cmp.Or(ownPod().name, machine, "pergola")
}

// runHost runs the host until ctx ends, and then lets the calls under way come to an end before it ends the plugins.
func runHost(ctx context.Context, flags *hostFlags, settings *config.HostConfiguration) error {
	log, level, err := newLogger(settings.Log)
	if err != nil {
		return err
	}
	cluster, err := clusterConfig(flags.kubeconfig, settings.Client)
	if err != nil {
		return err
	}
	podCluster, err := clusterConfig(cmp.Or(flags.hostKubeconfig, flags.kubeconfig), config.Client{})
	if err != nil {
		return err
	}
	replicas, err := joinReplicas(ctx, podCluster, ownPod(), settings, flags.standalone, log)
	if err != nil {
		return err
	}
	h := &host{
		flags: flags, settings: settings, replicas: replicas, log: log, level: level,
		listener: &listener{}, lastJobs: statuspage.NewJobs(), jobMetrics: telemetry.NewJobMetrics(),
	}
	if err := h.setUp(ctx, cluster, podCluster); err != nil {
		return errors.Join(err, h.discard(ctx))
	}
	return h.run(ctx)
}

// host is a host and what it is made of.
type host struct {
	flags    *hostFlags
	settings *config.HostConfiguration
	replicas *replicas
	log      *slog.Logger
	level    slog.Level

	manager     manager.Manager
	items       *controller.Source
	plugins     *plugin.Set
	deployItems *controller.Controller
	listener    *listener
	// registrations have the HTTP hooks.
	registrations *httphook.Registrations
	jobs          *standalone.Setter // nil if the host sets no jobs
	keeper        *inuse.Keeper      // nil if the host does not keep what items use
	leftovers     *collect.Collector
	lastJobs      *statuspage.Jobs
	jobMetrics    *telemetry.JobMetrics
	tracer        *telemetry.Tracer // nil without traces
	stopping      atomic.Bool
}

// setUp makes everything that the host consists of, and starts nothing.
func (h *host) setUp(ctx context.Context, cluster, podCluster *rest.Config) error {
	var err error
	if h.manager, h.items, err = newManager(cluster, h.settings.Timeouts.Shutdown.Duration+lastWrites, h.log); err != nil {
		return err
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
	if err := h.replicas.lock(h.manager, h.listener, h.settings.LockPrefix); err != nil {
		return err
	}
	if h.flags.standalone {
		if err := h.setJobs(); err != nil {
			return err
		}
	}
	if err := h.keepReferences(ctx); err != nil {
		return err
	}
	h.deployItems = controller.New(h.manager, h.controllerOptions(selectors))
	h.listener.Controller = h.deployItems
	if err := errors.Join(h.collectLeftovers(), h.add(h.deployItems)); err != nil {
		return err
	}
	return h.measure(ctx, podCluster)
}

func (h *host) controllerOptions(selectors selector.Selectors) controller.Options {
	options := controller.Options{
		Plugins:              h.plugins,
		Locks:                h.replicas.locker,
		Identity:             h.settings.Identity,
		Workers:              h.settings.Workers,
		PluginWorkers:        map[string]int{},
		AbortTimeout:         h.settings.Timeouts.Abort.Duration,
		MaxCrashes:           h.settings.MaxPluginCrashes,
		HookTimeout:          h.settings.Timeouts.Hook.Duration,
		MinimumInterval:      h.settings.ContinuousReconcile.MinimumInterval.Duration,
		Jitter:               h.settings.ContinuousReconcile.Jitter.Duration,
		HTTPHooks:            h.registrations,
		Selectors:            selectors,
		Standalone:           h.flags.standalone,
		TargetServiceAccount: h.settings.TargetServiceAccount,
		Source:               h.items,
		JobEnded:             func(plugin string) { h.leftovers.JobEnded(plugin) },
		Served:               h.served,
		Observed:             telemetry.NewStream(clock.RealClock{}, h.tracer, h.jobMetrics, h.lastJobs),
		Log:                  h.log,
	}
	for name, p := range h.settings.Plugins {
		options.PluginWorkers[name] = p.Workers
	}
	if h.jobs != nil {
		options.Listed = h.jobs
	}
	if h.keeper != nil {
		options.Keeper = h.keeper
	}
	return options
}

// listener passes on to the controller, which is made after them, what plugins and locks report.
type listener struct{ *controller.Controller }

// add has the manager run something.
func (h *host) add(runnable manager.Runnable) error {
	if err := h.manager.Add(runnable); err != nil {
		return fmt.Errorf("set up the host: %w", err)
	}
	return nil
}

// discard gives back what a host has that is not run.
func (h *host) discard(ctx context.Context) error {
	err := h.replicas.abandon(ctx)
	if h.plugins != nil {
		err = errors.Join(err, h.plugins.Close())
	}
	h.tracer.Close(context.WithoutCancel(ctx)) // even if ctx has ended
	return err
}

// unservedGrace and unservedGraceOfReplicas are for standalone.Options.UnservedGrace.
const (
	unservedGrace           = 5 * time.Second
	unservedGraceOfReplicas = time.Minute
)

// setJobs has the host set jobs, too.
func (h *host) setJobs() error {
	options, err := jobOptions(h.settings)
	if err != nil {
		return err
	}
	options.Elected = func(t v1alpha1.DeployItemType) bool {
		if p := h.plugins.For(t); p != nil {
			return h.replicas.electedFor(p.Name())
		}
		return h.replicas.elected() // to say that nobody serves it
	}
	options.Unserved, options.UnservedGrace = h.plugins.Unserved, unservedGrace
	if !h.replicas.alone() { // one with another plugin may be starting
		options.UnservedGrace = unservedGraceOfReplicas
	}
	serves := func(t v1alpha1.DeployItemType) bool { return h.plugins.For(t) != nil }
	setter, err := standalone.Setup(h.manager, serves, controller.NewMetadata, h.log, options)
	if err != nil {
		return err
	}
	h.jobs = setter
	h.replicas.onElection(setter.ReplicasChanged)
	return nil
}

// measure has the host seen from outside. Afterwards it listens.
func (h *host) measure(ctx context.Context, podCluster *rest.Config) error {
	err := errors.Join(
		h.replicas.measureAutoscalers(h.manager, podCluster, ownPod()),
		metrics.Registry.Register(telemetry.NewPluginCollector(h.plugins.Status)),
		metrics.Registry.Register(telemetry.NewWorkerCollector(h.deployItems.Workers)),
		metrics.Registry.Register(telemetry.NewUnservedGauge(h.deployItems.Unserved)),
		h.jobMetrics.Register(metrics.Registry),
		h.measureMemory(ctx))
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	endpoints, err := telemetry.Listen(ctx, h.settings.ListenAddress, h.ready, h.plugins.Status, metrics.Registry)
	if err != nil {
		return err
	}
	h.log.Info("host is starting", "version", version, "config", h.flags.config, "pluginDir", h.flags.pluginDir,
		"attached", h.flags.attach, "identity", h.settings.Identity, "standalone", h.flags.standalone,
		"locking", !h.replicas.alone(), "listenAddress", endpoints.Server.Addr)
	return errors.Join(h.add(endpoints), h.serveProfiles(ctx), h.serveStatusPage(ctx))
}

// run starts everything and stops it in reverse: the plugins outlive those who call them, and the sign of life of this
// replica, without which others take its locks over, outlives the plugins. A replica that was replaced stops, too.
func (h *host) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { h.stopping.Store(true) })()
	pluginsCtx, endPlugins := context.WithCancel(context.WithoutCancel(ctx))
	replicasCtx, endReplicas := context.WithCancel(context.WithoutCancel(ctx))
	pluginsEnded, replicasEnded := make(chan error, 1), make(chan error, 1)
	go func() { pluginsEnded <- h.plugins.Run(pluginsCtx) }()
	go func() {
		defer stop()
		replicasEnded <- h.replicas.run(replicasCtx)
	}()

	err := h.manage(ctx)
	endPlugins()
	err = errors.Join(err, <-pluginsEnded)
	endReplicas()
	h.tracer.Close(context.WithoutCancel(ctx)) // even if ctx has ended
	return errors.Join(err, <-replicasEnded)
}

// unsyncedGrace is how long a manager that has not started everything has to end.
const unsyncedGrace = 2 * time.Second

// manage runs the manager until ctx ends. A manager that still waits for its caches does not end then, but spins (see
// https://github.com/kubernetes-sigs/controller-runtime/pull/3440). It has started nothing that must be stopped in
// order, and is left to the end of the process.
func (h *host) manage(ctx context.Context) error {
	ended := make(chan error, 1)
	// What it runs besides controllers takes its logger from the context.
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
		h.log.Info("host stops before it has listed all that it watches")
		return nil
	}
}

// ready is why the host cannot work yet, or any more; nil if it can.
func (h *host) ready() error {
	if h.stopping.Load() { // calls under way are brought to their end
		return errors.New("the host is stopping")
	}
	select {
	case <-h.manager.Elected():
	default:
		return errors.New("the host is starting: it has not listed all that it watches; its log says what it may not list")
	}
	return errors.Join(h.plugins.Ready(), h.deployItems.Ready(), h.registrations.Ready(), h.replicas.ready())
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
