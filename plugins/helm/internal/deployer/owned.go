package deployer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// foreignTo returns the reason why a live object is not the release's: it names another release, or it names none and
// was not created by the item.
func foreignTo(name helm.Release) func(managedresource.ManagedResourceStatus, metav1.Object) string {
	return func(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string) {
		of := helm.ReleaseOf(live)
		if of == name || of == (helm.Release{}) && entry.Resource.UID == live.GetUID() {
			return ""
		}
		return belongsTo(of)
	}
}

func belongsTo(of helm.Release) string {
	if of == (helm.Release{}) {
		return "it names no release, and the deploy item has not made it"
	}
	return fmt.Sprintf("it belongs to release %s", nameOf(of))
}

// keptBy adds a reason to keep an object: it is not the release's.
func keptBy(
	name helm.Release, kept func(managedresource.ManagedResourceStatus, metav1.Object) string,
) func(managedresource.ManagedResourceStatus, metav1.Object) string {
	foreign := foreignTo(name)
	return func(entry managedresource.ManagedResourceStatus, live metav1.Object) string {
		if why := foreign(entry, live); why != "" {
			return why
		}
		return kept(entry, live)
	}
}

// keptAtUninstall returns the reason to keep an object when Helm uninstalls a release.
func keptAtUninstall(entry managedresource.ManagedResourceStatus, _ metav1.Object) string {
	if entry.Policy == managedresource.PolicyKeep {
		return "policy keep"
	}
	return ""
}

// identify records the UIDs of objects from a failed or interrupted operation: the expected objects with the name of
// the release are its own.
func (j *helmJob) identify(ctx context.Context, name helm.Release) error {
	for _, entry := range j.Status.Inventory.Entries() {
		if entry.Resource.UID != "" {
			continue
		}
		reference := entry.Resource
		gvk := object.GVK(reference.APIVersion, reference.Kind)
		mapping, err := j.Client.MappingInAnyVersion(ctx, gvk, j.Began)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return job.During(stepRelease, target.Explain(j.Client.Host, err))
		}
		live, err := j.Client.Metadata(mapping, reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("get %s: %w", object.KeyOfReference(reference), err)
			return job.During(stepRelease, target.Explain(j.Client.Host, err))
		}
		if helm.ReleaseOf(live) == name {
			reference.UID = live.GetUID()
			j.Status.Inventory.Applied(reference, entry.Applied)
		}
	}
	return nil
}

// known returns the UIDs of the objects created by the item.
func (j *helmJob) known() []types.UID {
	var uids []types.UID
	for _, entry := range j.Status.Inventory.Entries() {
		if entry.Resource.UID != "" {
			uids = append(uids, entry.Resource.UID)
		}
	}
	return uids
}

// undeleted returns the objects not to be deleted by Helm: owners of kept objects, Namespaces and
// CustomResourceDefinitions. The job deletes the unwanted ones of them afterwards, when all kept objects are known.
func (j *helmJob) undeleted(ctx context.Context) ([]object.Key, error) {
	entries := j.Status.Inventory.Entries()
	why, err := prune.Holds(ctx, j.Client, j.Deletion(prune.Deletion{Entries: entries}))
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

// heldBack returns a function with the reason to keep a dropped object: another object would be deleted with it. after
// are the objects of the chart, and live the existing ones.
func (j *helmJob) heldBack(
	ctx context.Context, c *config.Config, after map[object.Key]desired.Manifest, live map[object.Key]metav1.Object,
) (func(key object.Key, uid types.UID) (why string), error) {
	d := prune.Deletion{Spare: map[object.Key]bool{}, Kept: keptBy(c.Release, kept)}
	for key := range after {
		d.Spare[key] = true
		if o := live[key]; o != nil && len(o.GetOwnerReferences()) > 0 {
			d.Owned = append(d.Owned, objects.Owned{Key: key, Owners: o.GetOwnerReferences()})
		}
	}
	d.Entries = j.Status.Inventory.Without(d.Spare)
	return prune.Holds(ctx, j.Client, j.Deletion(d))
}

// noteFound reports the fates of objects from others, and records that they are not the item's: the undoing of a
// failed operation must not include them. Objects taken over are recorded after the takeover.
func (j *helmJob) noteFound(ctx context.Context, name helm.Release, found []helm.Found) error {
	for _, f := range found {
		switch f.Fate {
		case helm.TakenOver:
			if entry, ok := j.Status.Inventory.Get(f.Key); ok && entry.Resource.UID == "" {
				j.Status.Inventory.Gone(f.Key)
			}
			if f.Of != name {
				j.Request.Warning(reasonTakenOver, fmt.Sprintf("%s %s; it belongs to release %s now", f.Key, formerOf(f.Of), nameOf(name)))
			}
		case helm.NotUndone:
			j.disown(f.Key, "the operation that has failed has not created it")
		case helm.Left:
			j.disown(f.Key, belongsTo(f.Of))
		}
	}
	return j.Status.Save(ctx)
}

// formerOf describes the former release of an object.
func formerOf(of helm.Release) string {
	if of == (helm.Release{}) {
		return "existed and belonged to no release"
	}
	return "belonged to release " + nameOf(of)
}

// disown drops an object left on the target from the inventory, and reports it once in a call.
func (j *helmJob) disown(key object.Key, why string) {
	j.Status.Inventory.Gone(key)
	if !j.disowned[key] {
		j.Request.Warning(reasonLeft, fmt.Sprintf("%s stays on the target as it is: %s", key, why))
	}
	if j.disowned == nil {
		j.disowned = map[object.Key]bool{}
	}
	j.disowned[key] = true
}

// disownSkipped drops the objects of others. Those outside of the inventory are reported only in the first call of a
// job.
func (j *helmJob) disownSkipped(skipped []apply.Skipped) {
	for _, s := range skipped {
		if _, managed := j.Status.Inventory.Get(s.Key); managed || j.First() {
			j.disown(s.Key, s.Why)
		}
	}
}
