package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/collect"
	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/reaper"
	"github.com/pergola-deploy/pergola/host/internal/rundir"
)

// openPlugins makes what the host has on its machine: the run directory, its plugins and the socket to control them.
func (h *host) openPlugins(ctx context.Context, podCluster *rest.Config) error {
	var err error
	if h.runDir, err = rundir.Make(ctx, h.flags.runDir); err != nil {
		return err
	}
	options := pluginOptions(h.settings, h.log, h.level)
	if options.Orphans, err = reaper.New(h.log); err != nil {
		return err
	}
	if options.HostClusters, err = h.hostClusters(podCluster); err != nil {
		return err
	}
	options.Dir, options.Files, options.Attach, options.RunDir = h.flags.pluginDir, h.settings.PluginFiles, h.flags.attach, h.runDir.Path()
	if h.plugins, err = plugin.Open(options, h.deployItems); err != nil {
		return err
	}
	h.control, err = control.Listen(ctx, h.runDir.Path(), h.plugins, h.journal, h.log)
	return err
}

// collectLeftovers has plugins remove what they keep and nobody needs any more.
func (h *host) collectLeftovers() error {
	h.leftovers = collect.New(collect.Options{
		Cache: h.manager.GetCache(), Live: h.manager.GetAPIReader(), NewMetadata: controller.NewMetadata,
		Plugins: h.collectors, Elected: h.replicas.electedFor,
		Interval: h.settings.CollectInterval.Duration, Clock: clock.RealClock{}, Random: rand.Float64, Log: h.log,
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

// runPlugins runs the plugins, and lets an operator see and reload them, until ctx ends.
func (h *host) runPlugins(ctx context.Context) error {
	controlEnded := make(chan error, 1)
	go func() { controlEnded <- h.control.Run(ctx) }()
	var reloading sync.WaitGroup
	reloading.Go(func() { h.reloadOnHangUp(ctx) })
	err := h.plugins.Run(ctx)
	reloading.Wait()
	return errors.Join(err, <-controlEnded)
}

// reloadOnHangUp reloads the plugins whenever the process gets SIGHUP, one reload after the other, until ctx ends. Signals that come
// during a reload lead to one more.
func (h *host) reloadOnHangUp(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.hangUps:
		}
		h.log.Info("plugins are reloaded, as SIGHUP asks for")
		if _, err := h.plugins.Reload(ctx); err != nil {
			h.log.Error("plugins were not reloaded", "error", err.Error())
		}
	}
}
