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

// changeRetaining changes an object. What others have set once, such as the address of a Service, and what can be set
// but not removed is missing in a manifest, and the API server refuses to remove it. So what a refusal is about, the
// manifest does not name and the object has, keeps its value, and the change is tried again. retained are the paths of
// those fields that this field manager had set itself.
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

// retention is how far fields are looked for when the API server names only what they are in, such as the whole spec:
// right in there, or anywhere.
type retention struct{ deep bool }

// retain sets fields of out that it lacks to what live has, as far as causes are about them, and returns their paths,
// with line ends between the names.
func (r retention) retain(i *Item, out, live *unstructured.Unstructured, found []metav1.StatusCause) (paths []string) {
	for _, cause := range found {
		path := pathOf(cause.Field)
		if len(path) == 0 {
			path = []string{"spec"}
		}
		if path[0] == "metadata" || path[0] == "status" {
			continue
		}
		for len(path) > 0 { // a name of no field is that of a part of what it is in
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

// fill sets the fields that are missing in a map. With server-side apply those of others stay without being sent.
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
