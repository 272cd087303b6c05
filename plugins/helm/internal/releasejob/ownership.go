package releasejob

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// keepReason returns the reason to keep a live object of the inventory; empty for none.
type keepReason = func(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string)

// foreign returns the reason why a live object is not the release's: it names another owner, or it names none and was
// not created by the item.
func (r *Release) foreign(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string) {
	of := helm.OwnerOf(live)
	if of == r.name.Owner() || of == (helm.Owner{}) && entry.Resource.UID == live.GetUID() {
		return ""
	}
	return belongsTo(of)
}

func belongsTo(of helm.Owner) string {
	if of == (helm.Owner{}) {
		return "it names no release, and the deploy item has not made it"
	}
	return fmt.Sprintf("it belongs to %s", of)
}

// keptUnless adds a reason to keep an object: it is not the release's.
func (r *Release) keptUnless(kept keepReason) keepReason {
	return func(entry managedresource.ManagedResourceStatus, live metav1.Object) string {
		if why := r.foreign(entry, live); why != "" {
			return why
		}
		return kept(entry, live)
	}
}

// identify records the UIDs of objects from a failed or interrupted operation: the expected objects with the name of
// the release are its own.
func (r *Release) identify(ctx context.Context) error {
	for _, entry := range r.Status.Inventory.Entries() {
		if entry.Resource.UID != "" {
			continue
		}
		reference := entry.Resource
		gvk := object.GVK(reference.APIVersion, reference.Kind)
		mapping, err := r.Client.MappingInAnyVersion(ctx, gvk, r.Began)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return job.During(stepRelease, target.Explain(r.Client.Host, err))
		}
		live, err := r.Client.Metadata(mapping, reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("get %s: %w", object.KeyOfReference(reference), err)
			return job.During(stepRelease, target.Explain(r.Client.Host, err))
		}
		if helm.OwnerOf(live) == r.name.Owner() {
			reference.UID = live.GetUID()
			r.Status.Inventory.Applied(reference, entry.Applied)
		}
	}
	return nil
}

// known returns the UIDs of the objects created by the item.
func (r *Release) known() []types.UID {
	var uids []types.UID
	for _, entry := range r.Status.Inventory.Entries() {
		if entry.Resource.UID != "" {
			uids = append(uids, entry.Resource.UID)
		}
	}
	return uids
}

// undeleted returns the objects not to be deleted by Helm: owners of kept objects, Namespaces and
// CustomResourceDefinitions. The job deletes the unwanted ones of them afterwards, when all kept objects are known.
func (r *Release) undeleted(ctx context.Context) ([]object.Key, error) {
	entries := r.Status.Inventory.Entries()
	why, err := prune.Holds(ctx, r.Client, r.Deletion(prune.Deletion{Entries: entries}))
	if err != nil {
		return nil, err
	}
	var keys []object.Key
	for _, e := range entries {
		key := object.KeyOfReference(e.Resource)
		if prune.Contains(key) || why(key, e.Resource.UID) != "" {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// noteFound reports the fates of objects from others, and records that they are not the item's: the undoing of a
// failed operation must not include them. Objects taken over are recorded after the takeover.
func (r *Release) noteFound(ctx context.Context, found []helm.Found) error {
	for _, f := range found {
		switch f.Fate {
		case helm.TakenOver:
			if entry, ok := r.Status.Inventory.Get(f.Key); ok && entry.Resource.UID == "" {
				r.Status.Inventory.Gone(f.Key)
			}
			if f.Of != r.name.Owner() {
				r.warnOfTakeover(f.Key, f.Of)
			}
		case helm.NotUndone:
			r.disown(f.Key, "the failed operation has not created it")
		case helm.Left:
			r.disown(f.Key, belongsTo(f.Of))
		}
	}
	return r.Status.Save(ctx)
}

// warnOfTakeover reports that an object of another owner, or of none, is the release's now.
func (r *Release) warnOfTakeover(key object.Key, from helm.Owner) {
	before := fmt.Sprintf("belonged to %s", from)
	if from == (helm.Owner{}) {
		before = "existed and belonged to no release"
	}
	r.Request.Warning(objectjob.ReasonTakenOver, fmt.Sprintf("%s %s; it belongs to release %s now", key, before, r.name))
}

// disown drops an object left on the target from the inventory, and reports it once in a call.
func (r *Release) disown(key object.Key, why string) {
	r.Status.Inventory.Gone(key)
	if !r.disowned[key] {
		r.Request.Warning(objectjob.ReasonLeft, fmt.Sprintf("%s stays on the target as it is: %s", key, why))
	}
	r.disowned[key] = true
}

// disownSkipped drops the objects of others. Those outside of the inventory are reported only in the first call of a
// job.
func (r *Release) disownSkipped(skipped []apply.Skipped) {
	for _, s := range skipped {
		if _, managed := r.Status.Inventory.Get(s.Key); managed || r.First() {
			r.disown(s.Key, s.Why)
		}
	}
}
