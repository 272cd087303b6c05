package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// takeShared has other managers give up the fields about to leave the manifest.
func (w writer) takeShared(ctx context.Context, i *desired.Object, live, out *unstructured.Unstructured) error {
	if !i.Force || len(w.dryRun) > 0 || i.Shared == nil && !managedfields.HasShared(live) {
		return nil
	}
	probe, err := w.dry().apply(ctx, i, out, true)
	if err != nil {
		return err
	}
	shared := sharedFields(i, live, probe)
	if len(shared) == 0 {
		return nil
	}
	entries, err := managedfields.GiveUp(live, shared)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return fmt.Errorf("write managedFields: %w", err)
	}
	_, err = w.patchManagers(ctx, i, patch)
	return err
}

// sharedFields returns the fields given up by a write, but kept by other managers.
func sharedFields(i *desired.Object, before, after *unstructured.Unstructured) map[int]*fieldpath.Set {
	if i.Strategy != managedresource.UpdateStrategyApply {
		return nil
	}
	return managedfields.Shared(before, after, i.Shared)
}
