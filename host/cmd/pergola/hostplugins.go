package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/collect"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// openPlugins finds the plugins and makes the directory for their sockets and temporary files. It is named after the
// process: in a container that is restarted, the next host has the same process id, and removes what one that was
// killed has left.
func (h *host) openPlugins(podCluster *rest.Config) error {
	var err error
	options := pluginOptions(h.settings, h.log, h.level)
	installation := target.NewInstallation(h.manager.GetAPIReader())
	options.Installation = installationOf(installation, h.log)
	if options.HostClusters, err = h.hostClusters(podCluster, installation); err != nil {
		return err
	}
	options.Dir, options.Files, options.Attach = h.flags.pluginDir, h.settings.PluginFiles, h.flags.attach
	options.TempDir = filepath.Join(os.TempDir(), "pergola-"+strconv.Itoa(os.Getpid()))
	h.plugins, err = plugin.Open(options, h.listener)
	return err
}

// collectLeftovers has plugins remove what they keep and nobody needs any more.
func (h *host) collectLeftovers() error {
	h.leftovers = collect.New(collect.Options{
		Cache: h.manager.GetCache(), Live: h.manager.GetAPIReader(),
		Plugins: h.collectors, Elected: h.replicas.electedFor,
		Interval: h.settings.CollectInterval.Duration, Random: rand.Float64, Log: h.log,
	})
	h.replicas.onElection(h.leftovers.LookAgain)
	return h.add(h.leftovers)
}

// collectors are the plugins that can tell what they keep.
func (h *host) collectors() []collect.Plugin {
	var collectors []collect.Plugin
	for _, p := range h.plugins.Serving() {
		if p.Info().Capabilities.Collect {
			collectors = append(collectors, p)
		}
	}
	return collectors
}

// hostClusters are the accesses to the cluster of the pods that the configuration grants, by the names of the plugins.
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
			Tokens: requester, Cluster: podCluster,
			Installation: installation, Clock: clock.RealClock{},
		}).Get
	}
	return granted, nil
}

// registerHTTPHooks has the manager reconcile DeployerRegistrations. Nothing asks for hooks before the plugins and the
// controller are there.
func (h *host) registerHTTPHooks() error {
	requests := httphook.NewMetrics()
	if err := requests.Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of HTTP hooks: %w", err)
	}
	var err error
	h.registrations, err = httphook.NewRegistrations(h.manager, httphook.RegistrationOptions{
		ClusterDomain: h.settings.ClusterDomain, Version: version, Metrics: requests, Log: h.log,
		Elected: h.electedForRegistrations, Deployers: h.deployer,
		Changed: func(types []v1alpha1.DeployItemType) { h.deployItems.HTTPHooksChanged(types) },
	})
	return err
}

// electedForRegistrations reports whether this replica writes the statuses of registrations. One whose plugins have not
// started could only write that nobody serves anything.
func (h *host) electedForRegistrations() bool {
	return h.replicas.elected() && len(h.plugins.Serving()) > 0
}

// deployer tells which plugin serves a type, and in how many replicas, this one included.
func (h *host) deployer(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
	p := h.plugins.For(t)
	if p == nil {
		return "", "", 0, false
	}
	info := p.Info()
	return info.Name, info.Version, h.replicas.servers(info.Name), true
}

// served hears of the types of a plugin that begins to be served.
func (h *host) served(types []v1alpha1.DeployItemType) {
	h.leftovers.LookAgain()
	if h.jobs != nil {
		h.jobs.Served(types)
	}
}
