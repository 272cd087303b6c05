package releasejob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/observe"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Diff compares the objects of the deployed revision with a new rendering: the merge with the live objects is Helm's,
// on the target. It begins with the end of the item's former release.
func (d *Deployment) Diff(ctx context.Context) ([]sdk.Change, error) {
	former := d.former()
	changes, err := d.diffNext(ctx, former)
	if former == nil {
		return changes, err
	}
	if refused := (*sdk.Error)(nil); errors.As(err, &refused) && ctx.Err() == nil {
		// The job fails over it, and the release stays.
		return []sdk.Change{changeOf(d.name, sdk.ActionFail, err.Error())}, nil
	}
	fails := func(change sdk.Change) bool { return change.Action == sdk.ActionFail }
	if err != nil || slices.ContainsFunc(changes, fails) {
		return changes, err
	}
	ended, err := prune.Diff(ctx, d.Client, d.Deletion(former.removal()))
	if err != nil {
		return nil, job.During(stepUninstall, err)
	}
	note := fmt.Sprintf("it is uninstalled before release %s is made", d.name)
	return slices.Concat([]sdk.Change{changeOf(former.name, sdk.ActionDelete, note)}, ended, changes), nil
}

// changeOf returns the change of a release as a whole.
func changeOf(name helm.Release, action sdk.Action, note string) sdk.Change {
	return sdk.Change{Object: fmt.Sprintf("Release %s", name), Action: action, Note: note}
}

// diffNext returns the changes of the configured release.
func (d *Deployment) diffNext(ctx context.Context, former *Release) ([]sdk.Change, error) {
	history, err := d.history(ctx, stepRelease)
	if err != nil {
		return nil, err
	}
	want := d.want()
	// HTTP hooks are not asked: without another change, their changes stay.
	want.AnyChildren = true
	if err := d.learnCharts(ctx, history, &want); err != nil {
		return nil, err
	}
	decision := release.Decide(history, want)
	switch decision.Action {
	case release.Conflict:
		return []sdk.Change{changeOf(d.name, sdk.ActionFail, decision.Why)}, nil
	case release.Nothing:
		found, err := d.look(ctx, decision.Revision)
		if err != nil {
			return nil, job.During(stepRelease, err)
		}
		return repairs(found), nil
	default:
	}
	before, err := d.deployed(ctx, history)
	if err != nil {
		return nil, err
	}
	after, err := d.next(ctx, former, decision)
	if err != nil {
		return nil, err
	}
	changes, err := d.compare(ctx, before, after, former, decision.Action)
	if err != nil {
		return nil, err
	}
	if decision.Action == release.Upgrade && former == nil {
		if changes, err = d.withRepairs(ctx, before, after, changes, decision.Adopted); err != nil {
			return nil, err
		}
	}
	if from := takenFrom(decision); from != "" {
		changes = append([]sdk.Change{changeOf(d.name, sdk.ActionUpdate, "it "+from)}, changes...)
	}
	return changes, nil
}

// deployed returns the objects of the last deployed revision; none without one.
func (d *Deployment) deployed(ctx context.Context, history []release.Revision) ([]helm.Object, error) {
	for _, r := range slices.Backward(history) {
		if r.Status != release.StatusDeployed {
			continue
		}
		objects, err := release.Read(ctx, d.Client, d.name, r.Version)
		if err != nil {
			return nil, job.During(stepRelease, err)
		}
		return objects, nil
	}
	return nil, nil
}

// next returns the objects of the next revision.
func (d *Deployment) next(ctx context.Context, former *Release, decision release.Decision) ([]helm.Object, error) {
	var result *helm.Result
	var err error
	if former != nil {
		result, _, err = d.tryNext(ctx, former, decision)
	} else {
		result, err = d.Render(ctx, d.config, d.archive, decision.RenderedAs())
	}
	if err != nil {
		return nil, err
	}
	objects, err := chartobject.Replace(result.Objects, d.Request.Children)
	if err != nil {
		return nil, job.During(helmjob.StepRender, err)
	}
	return objects, nil
}

// withRepairs adds to the changes of an upgrade what it repairs in the objects with unchanged manifests: Helm merges
// all manifests with the objects as they are, and creates the missing ones. adopted: the release was Landscaper's.
func (d *Deployment) withRepairs(
	ctx context.Context, before, after []helm.Object, changes []sdk.Change, adopted bool,
) ([]sdk.Change, error) {
	plan, err := d.plan(ctx, after)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	asWritten := map[object.Key]managedresource.ManagedResourceStatus{}
	for _, i := range plan.Items() {
		entry, known := d.Status.Inventory.Get(i.Key)
		if !known {
			entry = i.Entry()
		}
		entry.Applied = i.HashOfManifest()
		asWritten[i.Key] = entry
	}
	recorded := func(key object.Key) (managedresource.ManagedResourceStatus, bool) {
		entry, ok := asWritten[key]
		return entry, ok
	}
	result, err := observe.Run(ctx, d.Client, plan, recorded, d.foreign, helmSelector)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	was, err := d.byKey(ctx, before)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	missing := slices.DeleteFunc(result.Missing, func(i *desired.Object) bool {
		_, is := was[i.Key]
		return !is
	})
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Object] = true
	}
	for _, c := range repairs(&observed{applied: result.Applied, missing: missing, drift: result.Drift}) {
		if !changed[c.Object] {
			changes = append(changes, c)
		}
	}
	if adopted {
		if changes, err = d.AddWaits(ctx, d.config.Checks, result.Applied, changes); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(changes, func(a, b sdk.Change) int { return strings.Compare(a.Object, b.Object) })
	return changes, nil
}

// repairs returns the repairs of an upgrade without a change of chart and values.
func repairs(found *observed) []sdk.Change {
	changes := make([]sdk.Change, 0, len(found.drift)+len(found.missing))
	for _, item := range found.missing {
		changes = append(changes, sdk.Change{
			Object: item.Key.String(), Action: sdk.ActionCreate, After: documentOf(item.Manifest, true),
			Note: "repairs that it is missing",
		})
	}
	for _, drift := range allOrNothing(found.drift) {
		if drift.Missing {
			continue
		}
		change := sdk.Change{Object: drift.Key.String(), Action: sdk.ActionUpdate, Note: "repairs " + drift.String()}
		if drift.Refused != "" {
			change.Action, change.Note = sdk.ActionKeep, drift.String()
		}
		for _, a := range found.applied {
			if a.Key == drift.Key {
				change.Before = a.DocumentNamed(a.Live)
				change.After = a.DocumentNamed(a.Manifest.Object)
			}
		}
		changes = append(changes, change)
	}
	return changes
}
