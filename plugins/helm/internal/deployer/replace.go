package deployer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// leaveOtherRelease uninstalls the item's former release if the configuration names another one, and that one can be
// made.
func (j *helmJob) leaveOtherRelease(
	ctx context.Context, c *config.Config, archive *chartsource.Archive,
) (*sdk.Response, error) {
	if !j.leaves(c) {
		return nil, nil //nolint:nilnil // see job
	}
	old := releaseOf(j.release)
	history, err := release.History(ctx, j.Client, old)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	if release.Exists(history) { // otherwise only the end of its objects is awaited
		if res, err := j.checkNext(ctx, c, archive); res != nil || err != nil {
			return res, err
		}
	}
	return j.uninstall(ctx, old, c.Uninstall)
}

// leaves reports whether the item has a release other than the configured one.
func (j *helmJob) leaves(c *config.Config) bool {
	return j.release != nil && releaseOf(j.release) != c.Release
}

// checkNext checks, before any change, whether the next release can be made, and hands the objects kept by the former
// one over to it.
func (j *helmJob) checkNext(
	ctx context.Context, c *config.Config, archive *chartsource.Archive,
) (*sdk.Response, error) {
	history, err := release.History(ctx, j.Client, c.Release)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	want := j.want(c, archive)
	if err := j.learnCharts(ctx, c, archive, history, &want); err != nil {
		return j.End(), err
	}
	decision := release.Decide(history, want)
	if res, err := j.blocked(c, decision); res != nil || err != nil {
		return res, err
	}
	rendered, kept, err := j.tryNext(ctx, c, archive, decision)
	if err != nil {
		return j.End(), err
	}
	if err := j.handOver(ctx, c, rendered, kept); err != nil {
		return j.End(), err
	}
	return nil, nil //nolint:nilnil // see job
}

// tryNext renders the next release, and asks the target whether it accepts the objects. kept are the objects left to
// it by the former release.
func (j *helmJob) tryNext(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, decision release.Decision,
) (rendered *helm.Result, kept []object.Key, err error) {
	options := c.Install
	if decision.Action == release.Upgrade {
		options = c.Upgrade
	}
	rendered, err = j.run(ctx, stepInstall, &helm.Request{
		Action: helm.Render, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values,
		Revision: decision.RenderedAs(), Options: options, CreateNamespace: c.CreateNamespace, Former: j.former(),
	}, &observer{found: func(_ context.Context, found []helm.Found) error {
		for _, f := range found {
			kept = append(kept, f.Key)
		}
		return nil
	}})
	if err != nil {
		return nil, nil, job.During(stepInstall, fmt.Errorf("release %s cannot be made, so release %s stays: %w",
			nameOf(c.Release), nameOf(releaseOf(j.release)), err))
	}
	return rendered, kept, nil
}

// former returns the item's former release.
func (j *helmJob) former() helm.Former {
	former := helm.Former{Release: releaseOf(j.release)}
	for _, entry := range j.Status.Inventory.Entries() {
		if entry.Policy != managedresource.PolicyKeep {
			former.Goes = append(former.Goes, object.KeyOfReference(entry.Resource))
		}
	}
	return former
}

// handOver puts the name of the next release on the objects kept by the former one: Helm takes no others.
func (j *helmJob) handOver(ctx context.Context, c *config.Config, rendered *helm.Result, kept []object.Key) error {
	if len(kept) == 0 {
		return nil
	}
	plan, err := j.planOf(ctx, c.Release, rendered.Objects)
	if err != nil {
		return job.During(stepInstall, err)
	}
	old := releaseOf(j.release)
	for _, item := range plan.Items() {
		if !slices.Contains(kept, item.Key) {
			continue
		}
		if err := j.rename(ctx, item, old, c.Release); err != nil {
			err = target.Explain(j.Client.Host, fmt.Errorf("hand %s over to release %s: %w", item.Key, nameOf(c.Release), err))
			return job.During(stepInstall, err)
		}
		j.Request.Warning(reasonTakenOver,
			fmt.Sprintf("%s %s; it belongs to release %s now", item.Key, formerOf(old), nameOf(c.Release)))
	}
	return nil
}

// rename changes the release named by an object.
func (j *helmJob) rename(ctx context.Context, item *desired.Object, from, to helm.Release) error {
	objects := j.Client.Objects(item.Mapping, item.Key.Namespace)
	live, err := objects.Get(ctx, item.Key.Name, metav1.GetOptions{})
	if err != nil || helm.ReleaseOf(live) != from {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "annotations": to.Annotations(),
	}})
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	_, err = objects.Patch(ctx, item.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "helm"})
	return err
}
