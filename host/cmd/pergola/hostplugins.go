package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/host/internal/collect"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// openPlugins finds the plugins and makes the directory for their sockets and temporary files. It is named after the process: in a
// container that is restarted, the next host has the same process id, and removes what one that was killed has left.
func (h *host) openPlugins(podCluster *rest.Config) error {
	var err error
	options := pluginOptions(h.settings, h.log, h.level)
	if options.HostClusters, err = h.hostClusters(podCluster); err != nil {
		return err
	}
	options.Dir, options.Files, options.Attach = h.flags.pluginDir, h.settings.PluginFiles, h.flags.attach
	options.TempDir = filepath.Join(os.TempDir(), "pergola-"+strconv.Itoa(os.Getpid()))
	h.plugins, err = plugin.Open(options, listener{h})
	return err
}

// collectLeftovers has plugins remove what they keep and nobody needs any more.
func (h *host) collectLeftovers() error {
	h.leftovers = collect.New(collect.Options{
		Cache: h.manager.GetCache(), Live: h.manager.GetAPIReader(), NewMetadata: controller.NewMetadata,
		Plugins: h.collectors, Elected: h.replicas.electedFor,
		Interval: h.settings.CollectInterval.Duration, Random: rand.Float64, Log: h.log,
	})
	h.replicas.onElection(h.leftovers.LookAgain)
	if err := h.manager.Add(h.leftovers); err != nil {
		return fmt.Errorf("set up the removal of what is left behind: %w", err)
	}
	return nil
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
