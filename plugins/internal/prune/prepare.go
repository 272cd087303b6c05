package prune

import (
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// reasonPatch is the reason of the error about a patchBeforeDelete not applicable to any object.
const reasonPatch = "PatchBeforeDeleteInvalid"

// preparationOf returns the changes to an object before its deletion, as a JSON merge patch: annotateBeforeDelete,
// and patchBeforeDelete on top of it. It is nil if there is neither. The error does not quote the patch, because it
// may hold secrets.
func preparationOf(e managedresource.ManagedResourceStatus) (map[string]any, error) {
	var preparation map[string]any
	if len(e.AnnotateBeforeDelete) > 0 {
		annotations := make(map[string]any, len(e.AnnotateBeforeDelete))
		for key, value := range e.AnnotateBeforeDelete {
			annotations[key] = value
		}
		preparation = map[string]any{"metadata": map[string]any{"annotations": annotations}}
	}
	if e.PatchBeforeDelete == nil || len(e.PatchBeforeDelete.Raw) == 0 {
		return preparation, nil
	}
	var patch map[string]any
	if err := utiljson.Unmarshal(e.PatchBeforeDelete.Raw, &patch); err != nil {
		return nil, sdk.ConfigurationError(reasonPatch, "patchBeforeDelete is not a JSON object")
	}
	if metadata, ok := patch["metadata"]; ok {
		if _, isMap := metadata.(map[string]any); !isMap {
			return nil, sdk.ConfigurationError(reasonPatch, "patchBeforeDelete: metadata is not a map")
		}
	}
	return objects.Compose(preparation, patch), nil
}
