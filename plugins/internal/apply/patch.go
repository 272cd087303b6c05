package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// Unpatched returns the applied objects Patch would change. Their hashes are to be removed from the inventory before,
// like those of objects with changed manifests: after a crash in between, the patch would look like a change by
// another client.
func Unpatched(applied []Applied) []Applied {
	var unpatched []Applied
	for _, a := range applied {
		if a.lacksPatch() {
			a.LastAppliedHash = ""
			unpatched = append(unpatched, a)
		}
	}
	return unpatched
}

// Patch makes the changes of patchAfterDeployment, each as a JSON merge patch, to all objects that do not have them
// yet. It returns the applied objects with a patch, in their new state. The error joins the errors of all objects;
// the returned ones are patched.
//
// An object with the policy immutable is patched, too: only its manifest is written just once.
func Patch(ctx context.Context, client *target.Client, applied []Applied) ([]Applied, error) {
	var all []Applied
	for _, a := range applied {
		if a.PatchAfterDeployment != nil {
			all = append(all, a)
		}
	}
	type result struct {
		applied Applied
		err     error
	}
	var done []Applied
	var errs []error
	for i, r := range objects.Each(all, func(a Applied) result {
		after, err := patchOne(ctx, client, a, false)
		return result{after, err}
	}) {
		if r.err != nil {
			errs = append(errs, all[i].About("patch", target.Explain(client.Host, r.err)))
			continue
		}
		done = append(done, r.applied)
	}
	return done, target.Collect(errs)
}

func patchOne(ctx context.Context, client *target.Client, a Applied, dry bool) (Applied, error) {
	if a.lacksPatch() {
		var dryRun []string
		if dry {
			dryRun = []string{metav1.DryRunAll}
		}
		// The uid of the applied object keeps the patch from another one of its name.
		live, err := objects.Patch(ctx, client.Objects(a.Mapping, a.Key.Namespace), a.Live, types.MergePatchType,
			a.PatchAfterDeployment, dryRun...)
		if apierrors.IsInvalid(err) && isOutdated(err) {
			err = apierrors.NewConflict(a.Mapping.Resource.GroupResource(), a.Key.Name, errAnother)
		}
		if err != nil {
			return a, err
		}
		if !a.IsMeant(a.PatchAfterDeployment, a.Live, live) {
			a.LastAppliedHash = ""
		}
		a.Live = live
	}
	if a.LastAppliedHash != "" && (!a.Settled || !desired.WasPatched(a.LastAppliedHash)) {
		a.LastAppliedHash = a.HashPatched(a.Live)
	}
	return a, nil
}

var errAnother = errors.New("it is another object than the applied one")

// lacksPatch reports whether an object has a patch that would change it. Another spelling by the API server is no
// change, as long as the object is as it was after the patch. A job patches an object once.
func (a Applied) lacksPatch() bool {
	if a.PatchAfterDeployment == nil || a.Settled && desired.WasPatched(a.LastAppliedHash) {
		return false
	}
	return a.LastAppliedHash != a.HashPatched(a.Live) && objects.Changes(a.Live.Object, a.PatchAfterDeployment)
}
