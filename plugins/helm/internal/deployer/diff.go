package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/apiserver"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Diff implements sdk.Differ. Without a release it is that of the manifest deployer. With one it compares the objects
// of the deployed revision with a rendering of now: the merge with the live objects is Helm's, on the target.
func (d *Deployer) Diff(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	ctx = apiserver.WithBreaker(ctx)
	c, err := config.Read(req, d.settings.Strict)
	if err != nil {
		return nil, err
	}
	j, err := d.begin(ctx, req, c.Release.Namespace)
	if err != nil {
		return nil, err
	}
	j.ignored = c.IgnoreDifferences
	if err := j.checkMode(ctx, c); err != nil {
		return nil, err
	}
	archive, err := j.fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	diff := j.diffObjects
	if c.HelmDeployment {
		diff = j.diffRelease
	}
	changes, err := diff(ctx, c, archive)
	return &sdk.DiffResponse{Changes: j.withWarning(c, changes)}, err
}

// withWarning puts Helm's warning first. A job without a release and without changes on the target has none.
func (j *helmJob) withWarning(c *config.Config, changes []sdk.Change) []sdk.Change {
	if j.chartWarning == "" || len(changes) == 0 && !c.HelmDeployment {
		return changes
	}
	chart := sdk.Change{Object: "Chart of " + nameOf(c.Release), Action: sdk.ActionUpdate, Note: j.chartWarning}
	return append([]sdk.Change{chart}, changes...)
}

func (j *helmJob) diffObjects(ctx context.Context, c *config.Config, archive *chartsource.Archive) ([]sdk.Change, error) {
	rendered, err := j.render(ctx, c, archive, 0)
	if err != nil {
		return nil, err
	}
	objects, err := objectsOf(rendered, j.Request.Children)
	if err != nil {
		return nil, err
	}
	changes, err := j.diffRendered(ctx, c, objects)
	if err != nil {
		return nil, redactorOf(c, objects).HideError(err)
	}
	return changes, nil
}

func (j *helmJob) diffRendered(ctx context.Context, c *config.Config, objects []helm.Object) ([]sdk.Change, error) {
	plan, err := j.planOfObjects(ctx, c, objects)
	if err != nil {
		return nil, job.During(objectjob.StepApply, err)
	}
	deletion := prune.Deletion{Groups: c.DeletionDuringUpdate, Kept: keptOfObjects}
	return j.Diff(objectjob.WithFields(ctx, j.deployer.settings.Strict), plan, deletion)
}

// diffRelease begins with the end of the item's former release.
func (j *helmJob) diffRelease(ctx context.Context, c *config.Config, archive *chartsource.Archive) ([]sdk.Change, error) {
	changes, err := j.diffNext(ctx, c, archive)
	if refused := (*sdk.Error)(nil); j.leaves(c) && errors.As(err, &refused) && ctx.Err() == nil {
		// The job fails over it, and the release stays.
		return []sdk.Change{{Object: "Release " + nameOf(c.Release), Action: sdk.ActionFail, Note: err.Error()}}, nil
	}
	if err != nil || !j.leaves(c) || slices.ContainsFunc(changes, func(change sdk.Change) bool { return change.Action == sdk.ActionFail }) {
		return changes, err
	}
	ended, err := prune.Diff(ctx, j.Client, j.Deletion(prune.Deletion{
		Entries: j.Status.Inventory.Entries(), Kept: keptBy(releaseOf(j.release), keptAtUninstall),
	}))
	if err != nil {
		return nil, job.During(stepUninstall, err)
	}
	note := fmt.Sprintf("it is uninstalled before release %s is made", nameOf(c.Release))
	ended = append([]sdk.Change{{Object: "Release " + nameOf(releaseOf(j.release)), Action: sdk.ActionDelete, Note: note}}, ended...)
	return append(ended, changes...), nil
}

func (j *helmJob) diffNext(ctx context.Context, c *config.Config, archive *chartsource.Archive) ([]sdk.Change, error) {
	history, err := release.History(ctx, j.Client, c.Release)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	want := j.want(c, archive)
	// HTTP hooks are not asked: without another change, their changes stay.
	want.AnyChildren = true
	if err := j.learnCharts(ctx, c, archive, history, &want); err != nil {
		return nil, err
	}
	decision := release.Decide(history, want)
	switch decision.Action {
	case release.Conflict:
		return []sdk.Change{{Object: "Release " + nameOf(c.Release), Action: sdk.ActionFail, Note: decision.Why}}, nil
	case release.Nothing:
		found, err := j.look(ctx, c.Release, decision.Revision)
		if err != nil {
			return nil, job.During(stepRelease, err)
		}
		return repairs(found), nil
	default:
	}
	before, err := j.deployed(ctx, c, history)
	if err != nil {
		return nil, err
	}
	after, err := j.wanted(ctx, c, archive, decision)
	if err != nil {
		return nil, err
	}
	live, err := j.liveOf(ctx, before, after)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	options := c.Upgrade
	if decision.Action == release.Install {
		options = c.Install
	}
	held, err := j.heldBack(ctx, c, after, live)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	changes := compare(before, after, func(key object.Key, was, is bool) (sdk.Action, string) {
		if o := live[key]; was && !is && o != nil {
			if why := held(key, o.GetUID()); why != "" {
				return sdk.ActionKeep, why
			}
		}
		return j.standing(c, options, key, was, is, live[key])
	})
	if from := takenFrom(decision); from != "" {
		taken := sdk.Change{Object: "Release " + nameOf(c.Release), Action: sdk.ActionUpdate, Note: "it " + from}
		changes = append([]sdk.Change{taken}, changes...)
	}
	return changes, nil
}

// takenFrom describes the former owner of a release in a takeover; empty for none.
func takenFrom(decision release.Decision) string {
	switch {
	case decision.TakenFrom != "":
		return "is taken over from " + decision.TakenFrom
	case decision.Adopted:
		return "is taken over; it belonged to no deploy item"
	default:
		return ""
	}
}

// liveOf returns the metadata of the existing ones of the objects.
func (j *helmJob) liveOf(ctx context.Context, before, after map[object.Key]desired.Manifest) (map[object.Key]metav1.Object, error) {
	all := maps.Clone(before)
	if all == nil {
		all = map[object.Key]desired.Manifest{}
	}
	maps.Copy(all, after)
	live := map[object.Key]metav1.Object{}
	for key, m := range all {
		mapping, err := j.Client.Mapping(ctx, m.Object.GroupVersionKind(), j.Began)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, target.Explain(j.Client.Host, err)
		}
		o, err := j.Client.Metadata(mapping, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			live[key] = o
		case !apierrors.IsNotFound(err):
			return nil, target.Explain(j.Client.Host, fmt.Errorf("get %s: %w", key, err))
		}
	}
	return live, nil
}

// standing returns the action of an operation on an object because of its owner; none if that does not matter. was and
// is report whether the release has it before and after.
func (j *helmJob) standing(
	c *config.Config, options helm.Options, key object.Key, was, is bool, live metav1.Object,
) (action sdk.Action, note string) {
	if live == nil {
		return "", ""
	}
	entry, _ := j.Status.Inventory.Get(key)
	of, why := helm.ReleaseOf(live), foreignTo(c.Release)(entry, live)
	ofFormer := j.leaves(c) && of == releaseOf(j.release)
	switch {
	case !was && ofFormer && entry.Policy != managedresource.PolicyKeep && entry.Resource.Name != "":
		return "", "" // it goes with the former release
	case was && !is && kept(entry, live) != "":
		return sdk.ActionKeep, ""
	case why == "" && !was:
		return sdk.ActionUpdate, "it exists and names the release"
	case why == "":
		return "", ""
	case is && (options.TakeOwnership || ofFormer):
		return sdk.ActionUpdate, "it is taken over: " + why
	case was:
		return sdk.ActionKeep, why
	default:
		return sdk.ActionFail, why + "; delete it, or set takeOwnership to take it over"
	}
}

// deployed returns the objects of the last deployed revision.
func (j *helmJob) deployed(ctx context.Context, c *config.Config, history []release.Revision) (map[object.Key]desired.Manifest, error) {
	last := deployedRevision(history)
	if last == 0 {
		return nil, nil //nolint:nilnil // none
	}
	objects, err := release.Read(ctx, j.Client, c.Release, last)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	return j.byKey(ctx, c, objects)
}

func deployedRevision(history []release.Revision) int {
	for _, r := range slices.Backward(history) {
		if r.Status == release.StatusDeployed {
			return r.Version
		}
	}
	return 0
}

// wanted returns the objects of the next revision.
func (j *helmJob) wanted(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, decision release.Decision,
) (map[object.Key]desired.Manifest, error) {
	var rendered *helm.Result
	var err error
	if j.leaves(c) {
		rendered, _, err = j.tryNext(ctx, c, archive, decision)
	} else {
		rendered, err = j.render(ctx, c, archive, decision.RenderedAs())
	}
	if err != nil {
		return nil, err
	}
	objects, err := replace(rendered.Objects, j.Request.Children)
	if err != nil {
		return nil, job.During(stepRender, err)
	}
	return j.byKey(ctx, c, objects)
}

// byKey returns objects by their keys on the target. An unknown kind, defined by the chart, counts as namespaced, as
// most are.
func (j *helmJob) byKey(ctx context.Context, c *config.Config, objects []helm.Object) (map[object.Key]desired.Manifest, error) {
	manifests, err := j.manifestsOf(objects, c.Release.Namespace)
	if err != nil {
		return nil, job.During(stepRender, err)
	}
	all := make(map[object.Key]desired.Manifest, len(manifests))
	for _, m := range manifests {
		key := object.KeyOf(m.Object)
		mapping, err := j.Client.Mapping(ctx, m.Object.GroupVersionKind(), j.Began)
		switch {
		case err != nil && !meta.IsNoMatchError(err):
			return nil, job.During(stepRelease, target.Explain(j.Client.Host, err))
		case err == nil && !mapping.Namespaced:
			key.Namespace = ""
		case key.Namespace == "":
			key.Namespace = c.Release.Namespace
		}
		all[key] = m
	}
	return all, nil
}

// compare returns the changes of a new revision, in the order of the objects' names. standing is the method of this
// name.
func compare(
	before, after map[object.Key]desired.Manifest, standing func(key object.Key, was, is bool) (sdk.Action, string),
) []sdk.Change {
	all := maps.Clone(after)
	if all == nil {
		all = map[object.Key]desired.Manifest{}
	}
	maps.Copy(all, before)
	var changes []sdk.Change
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b object.Key) int { return strings.Compare(a.String(), b.String()) }) {
		old, was := before[key]
		wanted, is := after[key]
		change := sdk.Change{Object: key.String(), Before: documentOf(old, was), After: documentOf(wanted, is)}
		action, note := standing(key, was, is)
		switch {
		case action == sdk.ActionKeep:
			change.Action, change.After, change.Note = action, change.Before, note
		case action != "":
			change.Action, change.Note = action, note
		case !was:
			change.Action = sdk.ActionCreate
		case is && bytes.Equal(change.Before, change.After):
			continue
		case is:
			change.Action, change.Note = sdk.ActionUpdate, fmt.Sprintf("as %s has it", wanted.Path)
		default:
			change.Action = sdk.ActionDelete
		}
		changes = append(changes, change)
	}
	return changes
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

// repairs returns the repairs of an upgrade without a change of chart and values.
func repairs(found *releaseObjects) []sdk.Change {
	changes := make([]sdk.Change, 0, len(found.drift)+len(found.missing))
	for _, item := range found.missing {
		changes = append(changes, sdk.Change{
			Object: item.Key.String(), Action: sdk.ActionCreate, After: documentOf(item.Manifest, true), Note: "repairs that it is missing",
		})
	}
	for _, d := range allOrNothing(found.drift) {
		if d.Missing {
			continue
		}
		change := sdk.Change{Object: d.Key.String(), Action: sdk.ActionUpdate, Note: "repairs " + d.String()}
		if d.Refused != "" {
			change.Action, change.Note = sdk.ActionKeep, d.String()
		}
		for _, a := range found.applied {
			if a.Key == d.Key {
				change.Before = a.DocumentNamed(a.Live)
				change.After = a.DocumentNamed(a.Manifest.Object)
			}
		}
		changes = append(changes, change)
	}
	return changes
}
