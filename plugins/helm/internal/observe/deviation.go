package observe

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// deviations returns the changes by a write of the manifest over the object; nil for none.
func (o observer) deviations(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (*desired.Drift, error) {
	meant, err := o.overwrite(ctx, i, live)
	switch {
	case err == nil:
	case apiserver.RefusesDryRuns(err):
		meant = i.Desired // a field with another spelling counts, too
	case apiserver.RefusesWrite(err):
		return desired.NotRepaired(i, live, err), nil
	default:
		return nil, err
	}
	if fields := desired.Deviating(i, live, meant); len(fields) > 0 {
		return &desired.Drift{Key: i.Key, Fields: fields}, nil
	}
	return nil, nil //nolint:nilnil // see above
}

// overwrite sets the manifest's fields of an object in a dry run, and leaves all others as they are.
func (o observer) overwrite(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	writes, patch := o.client.Objects(i.Mapping, i.Key.Namespace), i.Compared()
	written, err := objects.Patch(ctx, writes, live, types.StrategicMergePatchType, patch, metav1.DryRunAll)
	// Without the types of a kind, the API server cannot tell the elements of its lists apart.
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnsupportedMediaType {
		written, err = objects.Patch(ctx, writes, live, types.MergePatchType, patch, metav1.DryRunAll)
	}
	return written, err
}
