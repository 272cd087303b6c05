package main

import (
	"context"
	"fmt"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// trace has jobs traced, if the configuration says where traces go.
func (h *host) trace(ctx context.Context) (err error) {
	t := h.settings.Tracing
	if t.Endpoint == "" {
		return nil
	}
	h.tracer, err = telemetry.NewTracer(ctx, telemetry.TracerOptions{
		Endpoint: t.Endpoint, Insecure: t.Insecure, SampleRatio: t.SampleRatio,
		Version: version, Instance: defaultIdentity(), Log: h.log,
	})
	return err
}

// serveProfiles has profiles of the host served, if the configuration says where.
func (h *host) serveProfiles(ctx context.Context) error {
	if h.settings.PprofAddress == "" {
		return nil
	}
	profiles, err := telemetry.ListenForProfiles(ctx, h.settings.PprofAddress)
	if err != nil {
		return err
	}
	h.log.Info("profiles are served", "address", profiles.Server.Addr)
	return h.add(profiles)
}

// measureMemory has what the host keeps in its memory measured. That of which a cluster may have no kind is left out:
// an informer of it fails.
func (h *host) measureMemory(ctx context.Context) error {
	cached := map[string]client.Object{
		"deployitems": &v1alpha1.DeployItem{}, "targets": &v1alpha1.Target{}, "contexts": &v1alpha1.Context{},
	}
	if !h.replicas.alone() {
		cached["syncobjects"] = &v1alpha1.SyncObject{}
	}
	stores := map[string]toolscache.Store{}
	for resource, object := range cached {
		informer, err := h.manager.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %s: %w", resource, err)
		}
		if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
			stores[resource] = shared.GetStore()
		}
	}
	return metrics.Registry.Register(telemetry.NewMemoryCollector(func() telemetry.MemorySizes {
		sizes := telemetry.MemorySizes{Cached: map[string]int{}, Items: h.deployItems.Remembered()}
		for resource, store := range stores {
			sizes.Cached[resource] = len(store.ListKeys())
		}
		return sizes
	}))
}

// serveStatusPage has people look into the host with a browser, if the operator wants that.
func (h *host) serveStatusPage(ctx context.Context) error {
	if h.settings.StatusPage.ListenAddress == "" {
		return nil
	}
	self := ownPod()
	sources := statuspage.Sources{
		Host: statuspage.Host{
			Identity: h.settings.Identity, Version: version, Pod: self.name, Namespace: self.namespace,
			Standalone: h.flags.standalone, Started: time.Now().UTC(),
		},
		Ready:   h.ready,
		Plugins: func() *statuspage.PluginList { return statuspage.ListOf(h.plugins.Details()) },
		Workers: h.deployItems.Workers,
		Jobs:    h.lastJobs,
	}
	if !h.replicas.alone() {
		sources.Locks, sources.Replicas = h.replicas.locker.Held, h.replicas.Members
	}
	configured := h.settings.StatusPage
	names := telemetry.HostNames{Pod: self.name, ClusterDomain: h.settings.ClusterDomain, More: configured.HostNames}
	page, err := statuspage.Listen(ctx, configured.ListenAddress, names, sources, h.log)
	if err != nil {
		return err
	}
	h.log.Info("status page is served to whoever reaches it", "statusPageAddress", page.Server.Addr)
	return h.add(page)
}
