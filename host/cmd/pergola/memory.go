package main

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// measureMemory has what the host keeps in its memory measured. That of which a cluster may have no kind is left out: an informer of it fails.
func (h *host) measureMemory(ctx context.Context) error {
	cached := map[string]client.Object{
		"deployitems": controller.NewMetadata(), "targets": &v1alpha1.Target{}, "contexts": &v1alpha1.Context{},
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
