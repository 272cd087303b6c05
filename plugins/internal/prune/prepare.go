package prune

import (
	"maps"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// reasonPatch is given to the error about a patchBeforeDelete that cannot be applied to anything.
const reasonPatch = "PatchBeforeDeleteInvalid"

// preparationOf returns what is changed about an object before it is deleted, as a JSON merge patch:
// annotateBeforeDelete, and patchBeforeDelete on top of it. It is nil if there is neither. The error does not quote the
// patch, which may hold secrets.
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
	return compose(preparation, patch), nil
}

// compose returns the merge patch that does what first does, and then what second does, to an object whose fields have
// the types that first takes them to have.
func compose(first, second map[string]any) map[string]any {
	composed := maps.Clone(first)
	if composed == nil {
		composed = make(map[string]any, len(second))
	}
	for name, value := range second {
		before, isMap := composed[name].(map[string]any)
		if now, both := value.(map[string]any); both && isMap {
			value = compose(before, now)
		}
		composed[name] = value
	}
	return composed
}
