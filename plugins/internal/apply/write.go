package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// writer sends the requests for one object. Its errors are those of the API server.
type writer struct {
	objects dynamic.ResourceInterface
	// dryRun is as in the options of requests: the API server does everything but store the result.
	dryRun []string
}

func newWriter(client *target.Client, i *desired.Object, dry bool) writer {
	w := writer{objects: client.Objects(i.Mapping, i.Key.Namespace)}
	if dry {
		return w.dry()
	}
	return w
}

// dry returns a writer whose requests change nothing.
func (w writer) dry() writer { return writer{objects: w.objects, dryRun: []string{metav1.DryRunAll}} }

// get returns the object; nil if there is none.
func (w writer) get(ctx context.Context, i *desired.Object) (*unstructured.Unstructured, error) {
	live, err := w.objects.Get(ctx, i.Key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // see above
	}
	return live, err
}

// create creates the object. If it exists, server-side apply changes it, every other strategy fails.
func (w writer) create(ctx context.Context, i *desired.Object) (*unstructured.Unstructured, error) {
	if i.Strategy == managedresource.UpdateStrategyApply {
		return w.apply(ctx, i, desired.Initial(i), i.Force)
	}
	return w.createOnly(ctx, i)
}

func (w writer) createOnly(ctx context.Context, i *desired.Object) (*unstructured.Unstructured, error) {
	options := metav1.CreateOptions{FieldManager: owner.FieldManager, DryRun: w.dryRun}
	created, err := w.objects.Create(ctx, desired.Initial(i), options)
	return created, err
}

// change brings an existing object to out.
func (w writer) change(
	ctx context.Context, i *desired.Object, live, out *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	switch i.Strategy {
	case managedresource.UpdateStrategyPatch:
		// No resourceVersion, so changes of others do not get in the way; but the patch is for this object and no other of
		// its name.
		patch := objects.MergePatch(objects.Content(live), objects.Content(out))
		return objects.Patch(ctx, w.objects, live, types.MergePatchType, patch, w.dryRun...)
	case managedresource.UpdateStrategyApply:
		adopted, err := w.adoptFields(ctx, i, live)
		if err != nil {
			return nil, err
		}
		if err := w.takeShared(ctx, i, adopted, out); err != nil {
			return nil, err
		}
		// A dry run cannot adopt fields, so our own ones would conflict.
		unadopted := len(w.dryRun) > 0 && managedfields.WrittenOtherwise(live)
		return w.apply(ctx, i, out, i.Force || unadopted || isUntracked(i, live))
	default:
		updated, err := w.objects.Update(ctx, out, metav1.UpdateOptions{FieldManager: owner.FieldManager, DryRun: w.dryRun})
		return updated, err
	}
}

func (w writer) apply(
	ctx context.Context, i *desired.Object, o *unstructured.Unstructured, force bool,
) (*unstructured.Unstructured, error) {
	options := metav1.ApplyOptions{FieldManager: owner.FieldManager, Force: force, DryRun: w.dryRun}
	applied, err := w.objects.Apply(ctx, i.Key.Name, o, options)
	if conflictsOnlyOverLabels(i, err) {
		options.Force = true
		applied, err = w.objects.Apply(ctx, i.Key.Name, o, options)
	}
	return applied, err
}

// conflictsOnlyOverLabels reports whether a conflict is about no other fields than the labels and the mark of owners.
// The other fields of the manifest are the user's business, but the policy decides about the owner of the object.
func conflictsOnlyOverLabels(i *desired.Object, err error) bool {
	if !isFieldConflict(err) {
		return false
	}
	ours := map[string]bool{".metadata.annotations." + owner.InstallationAnnotation: true}
	for key := range i.Owner.Labels() {
		ours[".metadata.labels."+key] = true
	}
	for _, cause := range causes(err) {
		if cause.Type == metav1.CauseTypeFieldManagerConflict && !ours[cause.Field] {
			return false
		}
	}
	return true
}

// adoptFields turns the fields of former managers into fields applied by us, and returns the object. Otherwise fields
// dropped from the manifest would stay, and the others would conflict.
func (w writer) adoptFields(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if len(w.dryRun) > 0 || !managedfields.WrittenOtherwise(live) {
		return live, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, managedfields.FormerManagers(live), owner.FieldManager)
	if err != nil {
		return nil, fmt.Errorf("read managedFields: %w", err)
	}
	return w.patchManagers(ctx, i, patch)
}

func (w writer) patchManagers(
	ctx context.Context, i *desired.Object, patch []byte,
) (*unstructured.Unstructured, error) {
	options := metav1.PatchOptions{FieldManager: owner.FieldManager}
	live, err := w.objects.Patch(ctx, i.Key.Name, types.JSONPatchType, patch, options)
	return live, err
}

// isUntracked reports whether deploy items have written an object without known managers. The API server keeps no
// managedFields of an object created without any field, until it is applied for the first time, and drops them at the
// request of a client. All fields then seem to be those of one manager, "before-first-apply", and the deploy item's
// own fields would conflict. An object without the label of a deploy item was written by others, so its conflict is a
// true one.
func isUntracked(i *desired.Object, live *unstructured.Unstructured) bool {
	return len(live.GetManagedFields()) == 0 && i.Owner.Of(live) != owner.Nobodys && !i.Owner.IsOfRelease(live)
}
