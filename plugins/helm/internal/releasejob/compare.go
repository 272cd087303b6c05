package releasejob

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// comparison has the objects of a release before and after an operation, by their keys on the target.
type comparison struct {
	*Deployment

	former        *Release
	before, after map[object.Key]desired.Manifest
	// live has the metadata of the existing ones.
	live map[object.Key]metav1.Object
	// takes: the operation takes over objects of others.
	takes bool
	// held returns the reason to keep a dropped object: another object would be deleted with it.
	held func(key object.Key, uid types.UID) (why string)
}

// compare returns the changes of an operation, in the order of the objects' names.
func (d *Deployment) compare(
	ctx context.Context, before, after []helm.Object, former *Release, action release.Action,
) ([]sdk.Change, error) {
	c := &comparison{Deployment: d, former: former, takes: d.config.Upgrade.TakeOwnership}
	if action == release.Install {
		c.takes = d.config.Install.TakeOwnership
	}
	var err error
	if c.before, err = d.byKey(ctx, before); err != nil {
		return nil, err
	}
	if c.after, err = d.byKey(ctx, after); err != nil {
		return nil, err
	}
	if err := c.readLive(ctx); err != nil {
		return nil, job.During(stepRelease, err)
	}
	if c.held, err = prune.Holds(ctx, c.Client, c.dropped()); err != nil {
		return nil, job.During(stepRelease, err)
	}
	var changes []sdk.Change
	for _, key := range c.keys() {
		if change, ok := c.change(key); ok {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// byKey returns objects by their keys on the target. An unknown kind, defined by the chart, counts as namespaced, as
// most are.
func (d *Deployment) byKey(ctx context.Context, objects []helm.Object) (map[object.Key]desired.Manifest, error) {
	manifests, err := chartobject.Manifests(objects, d.name.Namespace, d.Ignored)
	if err != nil {
		return nil, job.During(helmjob.StepRender, err)
	}
	all := make(map[object.Key]desired.Manifest, len(manifests))
	for _, m := range manifests {
		key := object.KeyOf(m.Object)
		mapping, err := d.Client.Mapping(ctx, m.Object.GroupVersionKind(), d.Began)
		switch {
		case err != nil && !meta.IsNoMatchError(err):
			return nil, job.During(stepRelease, target.Explain(d.Client.Host, err))
		case err == nil && !mapping.Namespaced:
			key.Namespace = ""
		case key.Namespace == "":
			key.Namespace = d.name.Namespace
		}
		all[key] = m
	}
	return all, nil
}

// keys returns the keys of all objects in order.
func (c *comparison) keys() []object.Key {
	all := maps.Clone(c.after)
	maps.Copy(all, c.before)
	return slices.SortedFunc(maps.Keys(all), func(a, b object.Key) int { return strings.Compare(a.String(), b.String()) })
}

// readLive reads the metadata of the existing objects.
func (c *comparison) readLive(ctx context.Context) error {
	c.live = map[object.Key]metav1.Object{}
	for _, key := range c.keys() {
		m, ok := c.after[key]
		if !ok {
			m = c.before[key]
		}
		mapping, err := c.Client.Mapping(ctx, m.Object.GroupVersionKind(), c.Began)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return target.Explain(c.Client.Host, err)
		}
		o, err := c.Client.Metadata(mapping, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			c.live[key] = o
		case !apierrors.IsNotFound(err):
			return target.Explain(c.Client.Host, fmt.Errorf("get %s: %w", key, err))
		}
	}
	return nil
}

// dropped is the deletion of the objects dropped by the chart.
func (c *comparison) dropped() prune.Deletion {
	deletion := prune.Deletion{Spare: map[object.Key]bool{}, Kept: c.keptUnless(chartobject.KeptByAnnotation)}
	for key := range c.after {
		deletion.Spare[key] = true
		if o := c.live[key]; o != nil && len(o.GetOwnerReferences()) > 0 {
			deletion.Owned = append(deletion.Owned, objects.Owned{Key: key, Owners: o.GetOwnerReferences()})
		}
	}
	deletion.Entries = c.Status.Inventory.Without(deletion.Spare)
	return c.Deletion(deletion)
}

// change returns the change of an object, if there is one.
func (c *comparison) change(key object.Key) (change sdk.Change, changes bool) {
	before, was := c.before[key]
	after, is := c.after[key]
	change = sdk.Change{Object: key.String(), Before: documentOf(before, was), After: documentOf(after, is)}
	action, note := c.standing(key, was, is)
	switch {
	case action == sdk.ActionKeep:
		change.Action, change.After, change.Note = action, change.Before, note
	case action != "":
		change.Action, change.Note = action, note
	case !was:
		change.Action = sdk.ActionCreate
	case is && bytes.Equal(change.Before, change.After):
		return change, false
	case is:
		change.Action, change.Note = sdk.ActionUpdate, fmt.Sprintf("as %s has it", after.Path)
	default:
		change.Action = sdk.ActionDelete
	}
	return change, true
}

// standing returns the action of the operation on an object because of its owner or its dependents; none if they do not
// matter. was and is report whether the release has it before and after.
func (c *comparison) standing(key object.Key, was, is bool) (action sdk.Action, note string) {
	live := c.live[key]
	if live == nil {
		return "", ""
	}
	if was && !is {
		if why := c.held(key, live.GetUID()); why != "" {
			return sdk.ActionKeep, why
		}
	}
	entry, _ := c.Status.Inventory.Get(key)
	why := c.foreign(entry, live)
	ofFormer := c.former != nil && helm.OwnerOf(live) == c.former.name.Owner()
	switch {
	case !was && ofFormer && entry.Policy != managedresource.PolicyKeep && entry.Resource.Name != "":
		return "", "" // it goes with the former release
	case was && !is && chartobject.KeptByAnnotation(entry, live) != "":
		return sdk.ActionKeep, ""
	case why == "" && !was:
		return sdk.ActionUpdate, "it exists and names the release"
	case why == "":
		return "", ""
	case is && (c.takes || ofFormer):
		return sdk.ActionUpdate, "it is taken over: " + why
	case was:
		return sdk.ActionKeep, why
	default:
		return sdk.ActionFail, why + "; " + helm.AdviceOnOwner
	}
}

// documentOf returns an object as JSON, with sorted fields; nil without one.
func documentOf(m desired.Manifest, ok bool) json.RawMessage {
	if !ok {
		return nil
	}
	document, err := json.Marshal(m.Written())
	if err != nil {
		return nil // an object read from JSON can be written as JSON
	}
	return document
}
