package observe

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// deviations returns the changes by a write of the manifest over the object; nil for none.
func (o observer) deviations(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (*desired.Drift, error) {
	meant, err := o.overwrite(ctx, i, live)
	switch {
	case err == nil:
	case target.RefusesDryRuns(err):
		meant = i.Desired // a field with another spelling counts, too
	case target.RefusesWrite(err):
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
	patch := runtime.DeepCopyJSON(i.Compared())
	if err := unstructured.SetNestedField(patch, string(live.GetUID()), "metadata", "uid"); err != nil {
		return nil, fmt.Errorf("make the patch: %w", err)
	}
	document, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write the patch as JSON: %w", err)
	}
	writes := o.client.Objects(i.Mapping, i.Key.Namespace)
	options := metav1.PatchOptions{FieldManager: owner.FieldManager, DryRun: []string{metav1.DryRunAll}}
	written, err := writes.Patch(ctx, i.Key.Name, types.StrategicMergePatchType, document, options)
	// Without the types of a kind, the API server cannot tell the elements of its lists apart.
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnsupportedMediaType {
		written, err = writes.Patch(ctx, i.Key.Name, types.MergePatchType, document, options)
	}
	return written, err
}
