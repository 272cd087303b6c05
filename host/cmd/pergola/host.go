package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newHostCommand() *cobra.Command {
	flags := &hostFlags{}
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Run the host: load the deployers of a directory and carry out DeployItems with them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := flags.settings(cmd.Flags().Changed, defaultIdentity())
			if err != nil {
				return err
			}
			return withAdvice(runHost(cmd.Context(), flags, settings))
		},
	}
	flags.addTo(cmd)
	return cmd
}

// defaultIdentity is the pod's name, or the machine's.
func defaultIdentity() string {
	if pod := os.Getenv("MY_POD_NAME"); pod != "" {
		return pod
	}
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "pergola"
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
	mgr, err := newManager(cluster, settings.Timeouts.Shutdown.Duration)
	if err != nil {
		return err
	}
	selectors, errs := responsibility.Compile(settings.TargetSelectors, nil)
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	deployItems := controller.New(mgr, controller.Options{
		Identity:       settings.Identity,
		Workers:        settings.Workers,
		PluginWorkers:  pluginWorkers(settings),
		AbortTimeout:   settings.Timeouts.Abort.Duration,
		Selectors:      selectors,
		DefaultContext: flags.standalone,
		Log:            log,
	})
	plugins, err := plugin.Open(plugin.Options{
		Dir:          flags.pluginDir,
		Log:          log,
		LogLevel:     level,
		HostVersion:  version,
		StartTimeout: settings.Timeouts.PluginStart.Duration,
		StopGrace:    settings.Timeouts.PluginStop.Duration,
		Configs:      pluginConfigs(settings),
	}, deployItems)
	if err != nil {
		return err
	}
	deployItems.SetPlugins(plugins)
	if flags.standalone {
		options, err := jobOptions(settings)
		if err != nil {
			return err
		}
		setter, err := job.Setup(mgr, func(t v1alpha1.DeployItemType) bool { return plugins.For(t) != nil }, controller.NewMetadata, log, options)
		if err != nil {
			return err
		}
		deployItems.OnServe(setter.Served)
	}
	if err := metrics.Registry.Register(telemetry.NewPluginCollector(plugins.Status)); err != nil {
		return fmt.Errorf("register plugin metrics: %w", err)
	}
	endpoints, err := telemetry.Listen(ctx, settings.ListenAddress, readiness(mgr, plugins), metrics.Registry)
	if err != nil {
		return err
	}
	log.Info("host is starting", "version", version, "config", flags.config, "pluginDir", flags.pluginDir, "identity", settings.Identity,
		"standalone", flags.standalone, "listenAddress", endpoints.Address())
	return run(ctx, mgr, plugins, deployItems, endpoints)
}

// run starts everything and stops it in reverse: the plugins outlive those who call them.
func run(ctx context.Context, mgr manager.Manager, plugins *plugin.Set, runnables ...manager.Runnable) error {
	for _, runnable := range runnables {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("set up the host: %w", err)
		}
	}
	pluginsCtx, stopPlugins := context.WithCancel(context.WithoutCancel(ctx))
	pluginsEnded := make(chan error, 1)
	go func() { pluginsEnded <- plugins.Run(pluginsCtx) }()

	err := mgr.Start(ctx)
	stopPlugins()
	return errors.Join(err, <-pluginsEnded)
}

// withAdvice adds to an error what to do about it, where the error does not say.
func withAdvice(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster lacks the CustomResourceDefinitions; `pergola crds | kubectl apply -f -` installs them: %w", err)
	}
	return err
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

func clusterConfig(kubeconfig string, limits config.Client) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cluster, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("find the cluster: there is no kubeconfig; name one with --kubeconfig or $KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	cluster.UserAgent = controller.UserAgent + "/" + version
	cluster.WarningHandler = rest.NoWarnings{} // such as the one about Landscaper's finalizer, with each job
	cluster.QPS = -1                           // no limit
	if limits.Limited() {
		// Shared: from QPS and Burst each client of one kind of object would make a limit of its own.
		cluster.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(limits.QPS), limits.Burst)
	}
	return cluster, nil
}

// newManager returns a manager whose cache holds Targets and Contexts, and of DeployItems and secrets nothing but metadata. When it
// stops, calls under way may take the time of drain.
func newManager(cluster *rest.Config, drain time.Duration) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	mgr, err := manager.New(cluster, manager.Options{
		Scheme:                  scheme,
		Metrics:                 server.Options{BindAddress: "0"}, // package telemetry serves them
		GracefulShutdownTimeout: &drain,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				controller.NewMetadata(): {Transform: controller.Slim},
			},
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&v1alpha1.DeployItem{}, &corev1.Secret{},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return mgr, nil
}

// readiness is why the host cannot work yet, or any more; nil if it can.
func readiness(mgr manager.Manager, plugins *plugin.Set) func() error {
	return func() error {
		select {
		case <-mgr.Elected():
		default:
			return errors.New("the host is starting")
		}
		return plugins.Ready()
	}
}
