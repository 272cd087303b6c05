package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// Unpatched returns those of applied that Patch would change. Their hashes are to be removed from the inventory before,
// like those of objects whose manifests have changed: after a crash in between nobody could tell the patch from a
// change that somebody else has made.
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
// yet. It returns those of applied that have a patch, as they are then. The error holds those of all objects; what is
// returned beside it has been done.
//
// An object with the policy immutable is patched, too: it is its manifest that is written only once.
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
	for i, r := range Each(all, func(a Applied) result {
		after, err := patchOne(ctx, client, a)
		return result{after, err}
	}) {
		if r.err != nil {
			errs = append(errs, about("patch", all[i].Item, target.Explain(client.Host, r.err)))
			continue
		}
		done = append(done, r.applied)
	}
	return done, target.Collect(errs)
}

func patchOne(ctx context.Context, client *target.Client, a Applied) (Applied, error) {
	if a.lacksPatch() {
		live, err := newWriter(client, a.Item, false).patch(ctx, a.Item, a.PatchAfterDeployment)
		if err != nil {
			return a, err
		}
		if !isMeant(a.Item, a.PatchAfterDeployment, a.Live, live) {
			a.LastAppliedHash = ""
		}
		a.Live = live
	}
	if a.LastAppliedHash != "" && (!a.Settled || !wasPatched(a.LastAppliedHash)) {
		a.LastAppliedHash = hashOfPatched(a.Item, a.Live)
	}
	return a, nil
}

// lacksPatch tells whether there is a patch that would change the object. What the API server spells in another way
// than the patch is no change, as long as it looks as it looked after the patch. A job patches an object once.
func (a Applied) lacksPatch() bool {
	if a.PatchAfterDeployment == nil || a.Settled && wasPatched(a.LastAppliedHash) {
		return false
	}
	return a.LastAppliedHash != hashOfPatched(a.Item, a.Live) && Changes(a.Live.Object, a.PatchAfterDeployment)
}

// finally returns an object as it is after patchAfterDeployment. A map that is empty then is left out, as the API
// server leaves out most such, but not all: what this is compared with has to come from here, too.
func (i *Item) finally(o *unstructured.Unstructured) *unstructured.Unstructured {
	if i.PatchAfterDeployment == nil {
		return o
	}
	after := patched(o.Object, i.PatchAfterDeployment)
	return &unstructured.Unstructured{Object: withoutEmptied(after, i.PatchAfterDeployment)}
}
