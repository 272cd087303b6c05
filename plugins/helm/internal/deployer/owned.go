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
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// foreignTo says why an object on the target is not one of the release: what it names decides, and where it names no
// release, whether the deploy item has made it.
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

// keptBy adds to the reasons why an object stays that it is not one of the release.
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

// keptAtUninstall says why Helm leaves an object when it uninstalls a release.
func keptAtUninstall(entry managedresource.ManagedResourceStatus, _ metav1.Object) string {
	if entry.Policy == managedresource.PolicyKeep {
		return "policy keep"
	}
	return ""
}

// identify notes the UIDs of objects that the release was about to create when an operation failed, or was cut off: those
// that exist and name the release are its own.
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

// known returns the UIDs of the objects that the deploy item has made.
func (j *helmJob) known() []types.UID {
	var uids []types.UID
	for _, entry := range j.Status.Inventory.Entries() {
		if entry.Resource.UID != "" {
			uids = append(uids, entry.Resource.UID)
		}
	}
	return uids
}

// undeleted returns the objects that Helm is not to delete: owners of what is kept, Namespaces and
// CustomResourceDefinitions. What of them is to go the job deletes afterwards, when it is known what else stays.
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

// heldBack returns what says why an object stays that the chart drops, with the one that would be deleted with it. after
// are the objects that the chart has, and live those that exist.
func (j *helmJob) heldBack(
	ctx context.Context, c *config.Config, after map[object.Key]apply.Manifest, live map[object.Key]metav1.Object,
) (func(key object.Key, uid types.UID) (why string), error) {
	d := prune.Deletion{Spare: map[object.Key]bool{}, Kept: keptBy(c.Release, kept)}
	for key := range after {
		d.Spare[key] = true
		if o := live[key]; o != nil && len(o.GetOwnerReferences()) > 0 {
			d.Owned = append(d.Owned, apply.Owned{Key: key, Owners: o.GetOwnerReferences()})
		}
	}
	d.Entries = j.Status.Inventory.Without(d.Spare)
	return prune.Holds(ctx, j.Client, j.Deletion(d))
}

// noteFound tells what becomes of objects that the release has not made, and saves that they are not the item's: an
// operation that fails is not to be undone with them. Those that are taken over are noted when they are the release's.
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

// formerOf says to which release an object has belonged.
func formerOf(of helm.Release) string {
	if of == (helm.Release{}) {
		return "existed and belonged to no release"
	}
	return "belonged to release " + nameOf(of)
}

// disown drops an object from the inventory that stays on the target, and tells it once in a call.
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

// disownSkipped drops what is not the release's any more. Only the first call of a job tells what was known before.
func (j *helmJob) disownSkipped(skipped []apply.Skipped) {
	for _, s := range skipped {
		if _, managed := j.Status.Inventory.Get(s.Key); managed || j.First() {
			j.disown(s.Key, s.Why)
		}
	}
}
