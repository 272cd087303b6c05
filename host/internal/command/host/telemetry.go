package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/pluginmetrics"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// hostTelemetry has the observers of jobs.
type hostTelemetry struct {
	lastJobs *statuspage.Jobs
	jobs     *telemetry.JobMetrics
	// tracer is nil without traces.
	tracer *telemetry.Tracer
}

func newTelemetry() hostTelemetry {
	return hostTelemetry{lastJobs: statuspage.NewJobs(), jobs: telemetry.NewJobMetrics()}
}

// stream returns the events of jobs for all observers.
func (t *hostTelemetry) stream() *telemetry.Stream {
	return telemetry.NewStream(clock.RealClock{}, t.tracer, t.jobs, t.lastJobs)
}

// measure registers the metrics, and listens on all addresses of the host.
func (h *host) measure(ctx context.Context) error {
	err := errors.Join(
		h.replicas.measureAutoscalers(h.manager, h.pod.client, h.pod.self),
		metrics.Registry.Register(telemetry.NewPluginCollector(h.plugins.Status)),
		metrics.Registry.Register(telemetry.NewWorkerCollector(h.deployItems.Workers)),
		metrics.Registry.Register(telemetry.NewUnservedGauge(h.deployItems.Unserved)),
		h.telemetry.jobs.Register(metrics.Registry),
		h.measureMemory(ctx))
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	all, err := pluginmetrics.Beside(metrics.Registry, h.measured, h.log)
	if err != nil {
		return fmt.Errorf("set up metrics of plugins: %w", err)
	}
	endpoints, err := telemetry.Listen(ctx, h.settings.ListenAddress, h.ready, h.plugins.Status, all)
	if err != nil {
		return err
	}
	h.log.Info("host is starting", "version", h.version, "config", h.flags.config, "pluginDir", h.flags.pluginDir,
		"attached", h.flags.attach, "identity", h.settings.Identity, "standalone", h.flags.standalone,
		"locking", !h.replicas.alone(), "listenAddress", endpoints.Server.Addr)
	return errors.Join(h.add(endpoints), h.serveProfiles(ctx), h.serveStatusPage(ctx))
}

// measured returns the plugins with metrics of their own.
func (h *host) measured() []pluginmetrics.Plugin {
	var measured []pluginmetrics.Plugin
	for _, p := range h.plugins.Admitted() {
		if p.Info().Capabilities.Metrics {
			measured = append(measured, p)
		}
	}
	return measured
}

// trace opens the tracer if the configuration has an endpoint.
func (h *host) trace(ctx context.Context) (err error) {
	t := h.settings.Tracing
	if t.Endpoint == "" {
		return nil
	}
	h.telemetry.tracer, err = telemetry.NewTracer(ctx, telemetry.TracerOptions{
		Endpoint: t.Endpoint, Insecure: t.Insecure, SampleRatio: t.SampleRatio,
		Version: h.version, Instance: settings.DefaultIdentity(), Log: h.log,
	})
	return err
}

// serveProfiles listens for requests of profiles if the configuration has an address.
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

// measureMemory registers the metrics of cached objects.
func (h *host) measureMemory(ctx context.Context) error {
	// DeployerRegistrations are missing: a cluster may lack their definition, and their informer would fail.
	cached := map[string]client.ObjectList{
		"deployitems": &v1alpha1.DeployItemList{}, "targets": &v1alpha1.TargetList{}, "contexts": &v1alpha1.ContextList{},
	}
	if !h.replicas.alone() {
		cached["syncobjects"] = &v1alpha1.SyncObjectList{}
	}
	counts := map[string]func() int{}
	for resource, list := range cached {
		count, err := h.countCached(ctx, list)
		if err != nil {
			return fmt.Errorf("watch %s: %w", resource, err)
		}
		counts[resource] = count
	}
	return metrics.Registry.Register(telemetry.NewMemoryCollector(func() telemetry.MemorySizes {
		sizes := telemetry.MemorySizes{Cached: map[string]int{}, Items: h.deployItems.Remembered()}
		for resource, count := range counts {
			sizes.Cached[resource] = count()
		}
		return sizes
	}))
}

// countCached watches a kind, and returns a function for the number of its objects in the cache.
func (h *host) countCached(ctx context.Context, list client.ObjectList) (func() int, error) {
	gvk, err := h.manager.GetClient().GroupVersionKindFor(list)
	if err != nil {
		return nil, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	informer, err := h.manager.GetCache().GetInformerForKind(ctx, gvk, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		return func() int { return len(shared.GetStore().ListKeys()) }, nil
	}
	return func() int { // the informers of several namespaces have no common store
		if !informer.HasSynced() {
			return 0
		}
		all := list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy has the same type
		// After an error it is empty.
		_ = h.manager.GetCache().List(ctx, all, client.UnsafeDisableDeepCopy)
		return meta.LenList(all)
	}, nil
}

// serveStatusPage listens for requests of the status page if the configuration has an address.
func (h *host) serveStatusPage(ctx context.Context) error {
	if h.settings.StatusPage.ListenAddress == "" {
		return nil
	}
	self := h.pod.self
	sources := statuspage.Sources{
		Host: statuspage.Host{
			Identity: h.settings.Identity, Version: h.version, Pod: self.name, Namespace: self.namespace,
			Standalone: h.flags.standalone, Started: time.Now().UTC(),
		},
		Ready:   h.ready,
		Plugins: func() *statuspage.PluginList { return statuspage.ListOf(h.plugins.Details()) },
		Workers: h.deployItems.Workers,
		Jobs:    h.telemetry.lastJobs,
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
	h.log.Info("status page is served without authentication", "statusPageAddress", page.Server.Addr)
	return h.add(page)
}
