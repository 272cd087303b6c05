package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
)

// serveStatusPage has people look into the host with a browser, if the operator wants that.
func (h *host) serveStatusPage(ctx context.Context) error {
	if h.settings.StatusPage.ListenAddress == "" {
		return nil
	}
	self := ownPod()
	sources := statuspage.Sources{
		Host: statuspage.Host{
			Identity: h.settings.Identity, Version: version, Pod: self.name, Namespace: self.namespace, Standalone: h.flags.standalone,
			Started: time.Now().UTC(),
		},
		Ready:   h.ready,
		Plugins: func() *statuspage.PluginList { return statuspage.ListOf(h.plugins.Details()) },
		Workers: h.deployItems.Workers,
		Jobs:    h.lastJobs,
	}
	if !h.replicas.alone() {
		sources.Locks, sources.Replicas = h.replicas.locker.Held, h.replicas.Members
	}
	names := telemetry.HostNames{Pod: self.name, ClusterDomain: h.settings.ClusterDomain, More: h.settings.StatusPage.HostNames}
	page, err := statuspage.Listen(ctx, h.settings.StatusPage.ListenAddress, names, sources, h.log)
	if err != nil {
		return err
	}
	h.log.Info("status page is served to whoever reaches it", "statusPageAddress", page.Server.Addr)
	if err := h.manager.Add(page); err != nil {
		return fmt.Errorf("set up the host: %w", err)
	}
	return nil
}
