package main

import (
	"context"
	"errors"
	"sync"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/reaper"
	"github.com/pergola-deploy/pergola/host/internal/rundir"
)

// openPlugins makes what the host has on its machine: the run directory, its plugins and the socket to control them.
func (h *host) openPlugins(ctx context.Context) error {
	var err error
	if h.runDir, err = rundir.Make(ctx, h.flags.runDir); err != nil {
		return err
	}
	options, err := pluginOptions(h.settings, h.log, h.level)
	if err != nil {
		return err
	}
	if options.Orphans, err = reaper.New(h.log); err != nil {
		return err
	}
	options.Dir, options.Attach, options.RunDir = h.flags.pluginDir, h.flags.attach, h.runDir.Path()
	if h.plugins, err = plugin.Open(options, h.deployItems); err != nil {
		return err
	}
	h.control, err = control.Listen(ctx, h.runDir.Path(), h.plugins, h.log)
	return err
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
