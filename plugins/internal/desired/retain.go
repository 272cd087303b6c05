package desired

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Retention is the depth of the search for fields if the API server names only the value around them, such as the
// whole spec: directly in it, or anywhere.
type Retention struct{ Deep bool }

// Retain sets fields missing in out to their values in live, as far as causes are about them, and returns their
// paths, with line ends between the names.
func (r Retention) Retain(
	i *Object, out, live *unstructured.Unstructured, found []metav1.StatusCause,
) (paths []string) {
	for _, cause := range found {
		path := pathOf(cause.Field)
		if len(path) == 0 {
			path = []string{"spec"}
		}
		if path[0] == "metadata" || path[0] == "status" {
			continue
		}
		for len(path) > 0 { // a name without a field is a part of the field around it
			if _, exists, _ := unstructured.NestedFieldNoCopy(live.Object, path...); exists {
				break
			}
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			continue
		}
		theirs, _, _ := unstructured.NestedFieldNoCopy(live.Object, path...)
		ours, named, _ := unstructured.NestedFieldNoCopy(out.Object, path...)
		if !named {
			carryOver(out, live, path...)
			paths = append(paths, strings.Join(path, "\n"))
			continue
		}
		to, isMap := ours.(map[string]any)
		from, wasMap := theirs.(map[string]any)
		if isMap && wasMap && !managedfields.IsWhole(live, path) {
			paths = append(paths, r.fill(i, live, to, from, path)...)
		}
	}
	return paths
}

// fill sets the missing fields of a map. With server-side apply those of others stay without being sent.
func (r Retention) fill(
	i *Object, live *unstructured.Unstructured, to, from map[string]any, path []string,
) (paths []string) {
	for name, value := range from {
		at := append(slices.Clone(path), name)
		existing, named := to[name]
		switch {
		case !named && i.Strategy == managedresource.UpdateStrategyApply && !managedfields.Owns(live, at):
		case !named:
			to[name] = runtime.DeepCopyJSONValue(value)
			paths = append(paths, strings.Join(at, "\n"))
		case r.Deep:
			inner, isMap := existing.(map[string]any)
			theirs, wasMap := value.(map[string]any)
			if isMap && wasMap && !managedfields.IsWhole(live, at) {
				paths = append(paths, r.fill(i, live, inner, theirs, at)...)
			}
		}
	}
	return paths
}
