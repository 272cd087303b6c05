package releasejob

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// former returns the recorded release of another name than the configured one; nil for none.
func (d *Deployment) former() *Release {
	name := d.Record.ReleaseName()
	if name == (helm.Release{}) || name == d.name {
		return nil
	}
	return &Release{Job: d.Job, name: name, disowned: d.disowned}
}

// leave uninstalls the item's former release, if the next one can be made.
func (d *Deployment) leave(ctx context.Context, former *Release) (*sdk.Response, error) {
	history, err := former.history(ctx, stepRelease)
	if err != nil {
		return nil, err
	}
	if release.Exists(history) { // otherwise only the end of its objects is awaited
		if res, err := d.checkNext(ctx, former); res != nil || err != nil {
			return res, err
		}
	}
	return former.Uninstall(ctx, d.config.Uninstall)
}

// checkNext checks, before any change, whether the next release can be made, and hands the objects kept by the former
// one over to it.
func (d *Deployment) checkNext(ctx context.Context, former *Release) (*sdk.Response, error) {
	history, err := d.history(ctx, stepRelease)
	if err != nil {
		return nil, err
	}
	want := d.want()
	if err := d.learnCharts(ctx, history, &want); err != nil {
		return d.End(), err
	}
	decision := release.Decide(history, want)
	if res, err := d.blocked(ctx, decision); res != nil || err != nil {
		return res, err
	}
	result, kept, err := d.tryNext(ctx, former, decision)
	if err != nil {
		return d.End(), err
	}
	if err := d.takeKept(ctx, former, result.Objects, kept); err != nil {
		return d.End(), job.During(stepInstall, err)
	}
	return nil, nil //nolint:nilnil // see objectjob.Job
}

// tryNext renders the next release, and asks the target whether it accepts the objects. kept are the objects left to
// it by the former release.
func (d *Deployment) tryNext(
	ctx context.Context, former *Release, decision release.Decision,
) (result *helm.Result, kept []object.Key, err error) {
	options := d.config.Install
	if decision.Action == release.Upgrade {
		options = d.config.Upgrade
	}
	result, err = d.Run(ctx, stepInstall, &helm.Request{
		Action: helm.Render, Release: d.name, Chart: helm.Chart{Path: d.archive.Path}, Values: d.config.Values,
		Revision: decision.RenderedAs(), Options: options, CreateNamespace: d.config.CreateNamespace,
		Former: helm.Former{Release: former.name, Goes: former.goes()},
	}, helmjob.Events{Found: func(_ context.Context, found []helm.Found) error {
		for _, f := range found {
			kept = append(kept, f.Key)
		}
		return nil
	}})
	if err != nil {
		return nil, nil, job.During(stepInstall, fmt.Errorf("release %s cannot be made, so release %s stays: %w",
			d.name, former.name, err))
	}
	return result, kept, nil
}

// goes returns the objects deleted with the release.
func (r *Release) goes() []object.Key {
	var keys []object.Key
	for _, entry := range r.Status.Inventory.Entries() {
		if entry.Policy != managedresource.PolicyKeep {
			keys = append(keys, object.KeyOfReference(entry.Resource))
		}
	}
	return keys
}

// takeKept puts the name of the release on the objects kept by the former one: Helm takes no others.
func (d *Deployment) takeKept(ctx context.Context, former *Release, objects []helm.Object, kept []object.Key) error {
	if len(kept) == 0 {
		return nil
	}
	plan, err := d.plan(ctx, objects)
	if err != nil {
		return err
	}
	for _, item := range plan.Items() {
		if !slices.Contains(kept, item.Key) {
			continue
		}
		if err := d.rename(ctx, item, former.name); err != nil {
			return target.Explain(d.Client.Host, fmt.Errorf("hand %s over to release %s: %w", item.Key, d.name, err))
		}
		d.warnOfTakeover(item.Key, former.name.Owner())
	}
	return nil
}

// rename puts the name of the release on an object of another one.
func (d *Deployment) rename(ctx context.Context, item *desired.Object, from helm.Release) error {
	objects := d.Client.Objects(item.Mapping, item.Key.Namespace)
	live, err := objects.Get(ctx, item.Key.Name, metav1.GetOptions{})
	if err != nil || helm.OwnerOf(live) != from.Owner() {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "annotations": d.name.Annotations(),
	}})
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	_, err = objects.Patch(ctx, item.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "helm"})
	return err
}
