package apply

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// changeRetaining changes an object. A manifest lacks fields set once by others, such as the address of a Service,
// and fields that can be set but not removed; the API server refuses their removal. So a refused field that the
// object has and the manifest lacks keeps its value, and the change is tried again. retained are the paths of those
// of these fields that this field manager had set itself.
func (w writer) changeRetaining(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (written, out *unstructured.Unstructured, retained []string, err error) {
	out = desired.Wanted(i, live)
	written, err = w.change(ctx, i, live, out)
	for _, step := range []desired.Retention{{}, {Deep: true}} {
		if !apierrors.IsInvalid(err) || isOutdated(err) {
			break
		}
		// The elements of merged objects are those of the object already.
		if i.Strategy == managedresource.UpdateStrategyMerge || i.Strategy == managedresource.UpdateStrategyMergeOverwrite {
			break
		}
		more := step.Retain(i, out, live, causes(err))
		if len(more) == 0 {
			continue
		}
		retained = append(retained, more...)
		written, err = w.change(ctx, i, live, out)
	}
	retained = slices.DeleteFunc(retained, func(path string) bool {
		return !managedfields.Owns(live, strings.Split(path, "\n"))
	})
	for n := range retained {
		retained[n] = strings.ReplaceAll(retained[n], "\n", ".")
	}
	return written, out, retained, err
}
