package apply

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// changeRetaining changes an object. A manifest lacks fields set once by others, such as the address of a Service,
// and fields that can be set but not removed; the API server refuses their removal. So a refused field that the
// object has and the manifest lacks keeps its value, and the change is tried again. retained are the paths of those
// of these fields that this field manager had set itself.
func (w writer) changeRetaining(
	ctx context.Context, i *Item, live *unstructured.Unstructured,
) (written, out *unstructured.Unstructured, retained []string, err error) {
	out = wanted(i, live)
	written, err = w.change(ctx, i, live, out)
	for _, step := range []retention{{}, {deep: true}} {
		if !apierrors.IsInvalid(err) || isOutdated(err) {
			break
		}
		// The elements of merged objects are those of the object already.
		if i.Strategy == managedresource.UpdateStrategyMerge || i.Strategy == managedresource.UpdateStrategyMergeOverwrite {
			break
		}
		more := step.retain(i, out, live, causes(err))
		if len(more) == 0 {
			continue
		}
		retained = append(retained, more...)
		written, err = w.change(ctx, i, live, out)
	}
	retained = slices.DeleteFunc(retained, func(path string) bool { return !owns(live, strings.Split(path, "\n")) })
	for n := range retained {
		retained[n] = strings.ReplaceAll(retained[n], "\n", ".")
	}
	return written, out, retained, err
}

// retention is the depth of the search for fields if the API server names only the value around them, such as the
// whole spec: directly in it, or anywhere.
type retention struct{ deep bool }

// retain sets fields missing in out to their values in live, as far as causes are about them, and returns their
// paths, with line ends between the names.
func (r retention) retain(i *Item, out, live *unstructured.Unstructured, found []metav1.StatusCause) (paths []string) {
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
		if isMap && wasMap && !isWhole(live, path) {
			paths = append(paths, r.fill(i, live, to, from, path)...)
		}
	}
	return paths
}

// fill sets the missing fields of a map. With server-side apply those of others stay without being sent.
func (r retention) fill(
	i *Item, live *unstructured.Unstructured, to, from map[string]any, path []string,
) (paths []string) {
	for name, value := range from {
		at := append(slices.Clone(path), name)
		existing, named := to[name]
		switch {
		case !named && i.Strategy == managedresource.UpdateStrategyApply && !owns(live, at):
		case !named:
			to[name] = runtime.DeepCopyJSONValue(value)
			paths = append(paths, strings.Join(at, "\n"))
		case r.deep:
			inner, isMap := existing.(map[string]any)
			theirs, wasMap := value.(map[string]any)
			if isMap && wasMap && !isWhole(live, at) {
				paths = append(paths, r.fill(i, live, inner, theirs, at)...)
			}
		}
	}
	return paths
}
