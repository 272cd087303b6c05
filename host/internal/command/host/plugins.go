package host

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/collect"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// openPlugins finds the plugins and creates the directory for their sockets and temporary files.
func (h *host) openPlugins(podCluster *rest.Config) error {
	var err error
	options := settings.PluginOptions(h.settings, h.version, h.log)
	options.LogLevel = h.level
	installation := target.NewInstallation(h.manager.GetAPIReader())
	options.Installation = settings.Installation(installation, h.log)
	if options.HostClusters, err = h.hostClusters(podCluster, installation); err != nil {
		return err
	}
	options.Dir, options.Files, options.Attach = h.flags.pluginDir, h.settings.PluginFiles, h.flags.attach
	// In a restarted container the next host has the same process id, and removes the directory of a killed host.
	options.TempDir = filepath.Join(os.TempDir(), "pergola-"+strconv.Itoa(os.Getpid()))
	h.plugins, err = plugin.Open(options, h.deployItems)
	return err
}

// collectLeftovers adds the garbage collection of plugins.
func (h *host) collectLeftovers() error {
	h.extras.leftovers = collect.New(collect.Options{
		Cache: h.manager.GetCache(), Live: h.manager.GetAPIReader(),
		Plugins: h.collectors, Elected: h.replicas.electedFor,
		Interval: h.settings.CollectInterval.Duration, Random: rand.Float64, Log: h.log,
	})
	h.replicas.onElection(h.extras.leftovers.LookAgain)
	return h.add(h.extras.leftovers)
}

// collectors returns the plugins with garbage collection.
func (h *host) collectors() []collect.Plugin {
	var collectors []collect.Plugin
	for _, p := range h.plugins.Serving() {
		if p.Info().Capabilities.Collect {
			collectors = append(collectors, p)
		}
	}
	return collectors
}

// hostClusters returns the granted accesses to the cluster of the pods, by plugin.
func (h *host) hostClusters(
	podCluster *rest.Config, installation *target.Installation,
) (map[string]plugin.HostCluster, error) {
	requester, err := client.New(podCluster, client.Options{Scheme: h.manager.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of the pods: %w", err)
	}
	granted := map[string]plugin.HostCluster{}
	for name, p := range h.settings.Plugins {
		if p.HostCluster == nil {
			continue
		}
		account := p.HostCluster.ServiceAccount
		granted[name] = target.NewHostCluster(target.HostClusterOptions{
			Plugin: name, ServiceAccount: types.NamespacedName{Namespace: account.Namespace, Name: account.Name},
			Tokens: requester, User: target.UserOf(requester), Cluster: podCluster,
			Installation: installation, Clock: clock.RealClock{},
		}).Get
	}
	return granted, nil
}

// registerHTTPHooks adds the controller of DeployerRegistrations. Its callbacks need the complete host.
func (h *host) registerHTTPHooks() error {
	requests := httphook.NewMetrics()
	if err := requests.Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of HTTP hooks: %w", err)
	}
	var err error
	h.httpHooks, err = httphook.NewRegistrations(h.manager, httphook.RegistrationOptions{
		ClusterDomain: h.settings.ClusterDomain, Version: h.version, Metrics: requests, Log: h.log,
		Elected: h.electedForRegistrations, Deployers: h.deployer,
		Changed: h.hooksChanged,
	})
	return err
}

// hooksChanged takes the types with changed HTTP hooks. What the host finds at its start is no change.
func (h *host) hooksChanged(types []v1alpha1.DeployItemType, first bool) {
	h.deployItems.HTTPHooksChanged(types)
	if h.extras.jobs == nil || first {
		return
	}
	types = slices.DeleteFunc(slices.Clone(types), func(t v1alpha1.DeployItemType) bool {
		_, err := h.httpHooks.For(t)
		return err != nil // it cannot be called, and would fail the jobs
	})
	h.extras.jobs.RepairedTypes(types)
}

// electedForRegistrations reports whether this replica writes the statuses of registrations.
func (h *host) electedForRegistrations() bool {
	// Without running plugins the status would be that of unserved types.
	return h.replicas.elected() && len(h.plugins.Serving()) > 0
}

// deployer returns the plugin of a type, and the number of its replicas.
func (h *host) deployer(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
	p := h.plugins.For(t)
	if p == nil {
		return "", "", 0, false
	}
	info := p.Info()
	return info.Name, info.Version, h.replicas.servers(info.Name), true
}

// served is called with the types of a started plugin.
func (h *host) served(types []v1alpha1.DeployItemType) {
	h.extras.leftovers.LookAgain()
	if h.extras.jobs != nil {
		h.extras.jobs.Served(types)
	}
}
