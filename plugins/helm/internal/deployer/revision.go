package deployer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

const (
	// waitTimeout bounds each wait of Helm without another bound. It is Helm's own default.
	waitTimeout = 5 * time.Minute
	// undoShare is the divisor of the remaining time: this share, at most undoTime, is left to undo a failed atomic
	// operation.
	undoShare = 3
	undoTime  = 5 * time.Minute
)

// enact carries a decision out. gone has the completed objects of the release deleted since.
func (j *helmJob) enact(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, want release.Want, decision release.Decision,
	gone []object.Key,
) (*releaseObjects, *sdk.Response, error) {
	if res, err := j.blocked(c, decision); res != nil || err != nil {
		return nil, res, err
	}
	if len(decision.Interrupted) > 0 { // Helm marks them before it renders
		if err := j.Request.PickUp(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := j.identify(ctx, c.Release); err != nil {
		return nil, j.End(), err
	}
	undeleted, err := j.undeleted(ctx)
	if err != nil {
		return nil, j.End(), err
	}
	j.warnOfInterrupted(c.Release, decision)
	if from := takenFrom(decision); from != "" {
		j.Request.Warning(reasonTakenOver, fmt.Sprintf("release %s %s", nameOf(c.Release), from))
	}
	children := j.Request.Children
	if decision.Retry > 0 { // the objects of the attempt have those of an HTTP hook
		children, want.Children = nil, decision.Children
	}
	step, action, options, reason := stepUpgrade, helm.Upgrade, c.Upgrade, reasonUpgraded
	if decision.Action == release.Install {
		step, action, options, reason = stepInstall, helm.Install, c.Install, reasonInstalled
	}
	j.Request.Progress(step, fmt.Sprintf("making revision %d of the release %s", decision.Revision, nameOf(c.Release)))
	j.release = &v1alpha1.ReleaseStatus{
		Name: c.Release.Name, Namespace: c.Release.Namespace, Revision: j.deployedBefore(decision),
	}
	result, err := j.run(ctx, step, &helm.Request{
		Action: action, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values,
		CreateNamespace: c.CreateNamespace, Labels: want.Labels(decision.Revision),
		RollbackLabels: want.RollbackLabels(decision.Revision + 1),
		Interrupted:    decision.Interrupted, Retry: decision.Retry, Gone: gone, Options: j.bounded(ctx, options),
		Known: j.known(), Undeleted: undeleted,
	}, &observer{
		rendered: func(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
			return j.expect(ctx, c, objects, children, gone)
		},
		found: func(ctx context.Context, found []helm.Found) error { return j.noteFound(ctx, c.Release, found) },
	})
	if err != nil {
		return nil, j.End(), err
	}
	j.release = &v1alpha1.ReleaseStatus{
		Name: c.Release.Name, Namespace: c.Release.Namespace, Revision: result.Revision, JobID: j.Request.JobID,
	}
	j.chart = chartStatus(result.Chart, archive)
	j.Request.Event(reason, fmt.Sprintf("release %s: revision %d of chart %s %s",
		nameOf(c.Release), result.Revision, j.chart.Name, j.chart.Version))
	return j.settle(ctx, c, result.Objects)
}

// expect saves the objects of the release in the inventory before Helm creates them, except for completed ones deleted
// since. The children of an HTTP hook take their places.
func (j *helmJob) expect(
	ctx context.Context, c *config.Config, objects []helm.Object, children []sdk.Child, gone []object.Key,
) ([]helm.Object, error) {
	objects, err := replace(objects, children)
	if err != nil {
		return nil, err
	}
	plan, err := j.planOf(ctx, c.Release, objects)
	if err != nil {
		return nil, err
	}
	for _, item := range plan.Items() {
		// Helm's write may differ from the recorded one: the hash is made anew.
		j.Status.Inventory.Expect(item.Entry(), func(string) bool { return !slices.Contains(gone, item.Key) })
	}
	if err := j.Status.Save(ctx); err != nil {
		return nil, err
	}
	return objects, j.Request.PickUp(ctx)
}

// deployedBefore returns the item's last deployed revision by its own record. Until a revision has its label, this
// record is the only proof of ownership.
func (j *helmJob) deployedBefore(decision release.Decision) int {
	switch {
	case j.release != nil:
		return j.release.Revision
	case j.fromLandscaper():
		return decision.Newest
	default:
		return 0
	}
}

// warnOfInterrupted reports operations without an end.
func (j *helmJob) warnOfInterrupted(name helm.Release, decision release.Decision) {
	if len(decision.Interrupted) > 0 {
		j.Request.Warning(reasonRecovered, fmt.Sprintf(
			"release %s: marked the revisions %v as failed, whose operations have not come to their end",
			nameOf(name), decision.Interrupted))
	}
}

// bounded returns options for an operation with an end before the job's, and with time to undo it if it is atomic.
func (j *helmJob) bounded(ctx context.Context, options helm.Options) helm.Options {
	deadline, ok := ctx.Deadline()
	if !ok {
		options.Timeout = cmp.Or(max(options.Timeout, 0), waitTimeout)
		return options
	}
	left := max(time.Until(deadline), time.Second)
	if options.Timeout <= 0 || options.Timeout > left {
		options.Timeout = left
	}
	if options.Atomic {
		options.Until = deadline.Add(-min(left/undoShare, undoTime))
	}
	return options
}

func chartStatus(chart helm.Metadata, archive *chartsource.Archive) *v1alpha1.ChartStatus {
	return &v1alpha1.ChartStatus{
		Name: chart.Name, Version: chart.Version, AppVersion: chart.AppVersion, Digest: archive.Digest,
		Resource: resourceOf(archive),
	}
}

// resourceOf returns the resource in a component version behind a chart; nil for none.
func resourceOf(archive *chartsource.Archive) *v1alpha1.ComponentResource {
	key := archive.Resource
	if key == nil {
		return nil
	}
	return &v1alpha1.ComponentResource{Component: key.Component, Version: key.Version, Resource: key.Resource}
}
