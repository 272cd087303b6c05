package releasejob

import (
	"context"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// The steps of a job beside those of packages objectjob and helmjob, for its progress and errors.
const (
	stepRelease   = "ReadRelease"
	stepInstall   = "Install"
	stepUpgrade   = "Upgrade"
	stepUninstall = "Uninstall"
)

// The reasons of events and errors, beside those of package objectjob.
const (
	reasonInstalled   = "Installed"
	reasonUpgraded    = "Upgraded"
	reasonUninstalled = "Uninstalled"
	reasonRecovered   = "Recovered"
	// reasonReleaseTaken is the reason of the error about a release of another item.
	reasonReleaseTaken = "ReleaseTaken"
	// reasonReleaseChanged is the reason of the error about a release changed by another client during the job.
	reasonReleaseChanged = "ReleaseChanged"
)

// pendingGrace is the wait for another client's operation on the release before it counts as interrupted. It is Helm's
// own default timeout of an operation.
const pendingGrace = 5 * time.Minute

// Release is a release in one call.
type Release struct {
	*helmjob.Job

	name helm.Release
	// disowned has the objects reported as others' by this call.
	disowned map[object.Key]bool
}

// Of returns a release by its name.
func Of(j *helmjob.Job, name helm.Release) *Release {
	j.Owner.ByRelease = true
	return &Release{Job: j, name: name, disowned: map[object.Key]bool{}}
}

// wantOwner returns the wanted owner of the release.
func (r *Release) wantOwner() release.Want {
	want := release.Want{
		Item: r.ItemLabel(), Installation: r.Request.Installation,
		TakeOverFrom: r.Request.DeployItem.Annotations[owner.TakeOverAnnotation],
		Claimed:      r.claimed(), Now: r.Began, Grace: pendingGrace,
	}
	stored := r.Record.Stored
	if s := stored.Release; s != nil && (helm.Release{Namespace: s.Namespace, Name: s.Name}) == r.name {
		want.Restored = release.Restored{Installation: stored.Installation, Revision: s.Revision}
	}
	return want
}

// claimed reports whether the item has deployed the release by its own record.
func (r *Release) claimed() bool {
	return r.Record.Deployed() == helmjob.ByLandscaper ||
		r.Record.ReleaseName() == r.name && r.Record.Release.Revision > 0
}

// history returns the revisions of the release, by one request.
func (r *Release) history(ctx context.Context, step string) ([]release.Revision, error) {
	history, err := release.History(ctx, r.Client, r.name)
	if err != nil {
		return nil, job.During(step, err)
	}
	return history, nil
}

// IsMade reports whether the release was made by the item: by its record, or as found on the target.
func (r *Release) IsMade(ctx context.Context) (bool, error) {
	history, err := r.history(ctx, stepRelease)
	if err != nil {
		return false, err
	}
	return r.Record.Release.Revision > 0 || release.Of(history, r.wantOwner()) == owner.Ours, nil
}

// warnOfInterrupted reports operations without an end.
func (r *Release) warnOfInterrupted(decision release.Decision) {
	if len(decision.Interrupted) > 0 {
		r.Request.Warning(reasonRecovered, fmt.Sprintf(
			"release %s: marked the revisions %v of interrupted operations as failed", r.name, decision.Interrupted))
	}
}

// Deployment is a call to deploy a chart as a release.
type Deployment struct {
	*Release

	config  *config.Config
	archive *chartsource.Archive
}

// New returns the call for a configuration and its chart.
func New(j *helmjob.Job, c *config.Config, archive *chartsource.Archive) *Deployment {
	return &Deployment{Release: Of(j, c.Release), config: c, archive: archive}
}

// want returns the wanted release.
func (d *Deployment) want() release.Want {
	want := d.wantOwner()
	want.Input, want.TakeOwnership = release.Input([]byte(d.archive.Digest), d.config.Values), d.config.TakeOwnership
	want.Job = release.Input([]byte(hook.FirstJob(d.Request.DeployItem)))
	if d.Request.Children != nil {
		var parts [][]byte
		for _, child := range d.Request.Children {
			parts = append(parts, []byte(child.Name), child.Object)
		}
		want.Children = release.Input(parts...)
	}
	return want
}

// learnCharts adds the names of two charts for the takeover of a release without an item: the deployed one and the
// wanted one.
func (d *Deployment) learnCharts(ctx context.Context, history []release.Revision, want *release.Want) error {
	if !release.Unclaimed(history, *want) {
		return nil
	}
	result, err := d.Values(ctx, helmjob.StepChart, d.config, d.archive)
	if err != nil {
		return err
	}
	newest := &history[len(history)-1]
	want.Chart = result.Chart.Name
	if newest.Chart, err = release.ChartOf(ctx, d.Client, d.name, newest.Version); err != nil {
		return job.During(stepRelease, err)
	}
	return nil
}
