package deployer

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// pendingGrace is the wait for another client's operation on the release before it counts as interrupted. It is Helm's
// own default timeout of an operation.
const pendingGrace = 5 * time.Minute

// want returns the wanted release.
func (j *helmJob) want(c *config.Config, archive *chartsource.Archive) release.Want {
	want := j.wantOf(c.Release)
	want.Input, want.TakeOwnership = release.Input([]byte(archive.Digest), c.Values), c.TakeOwnership
	want.Job = release.Input([]byte(j.Request.JobID))
	if j.Request.Children != nil {
		var parts [][]byte
		for _, child := range j.Request.Children {
			parts = append(parts, []byte(child.Name), child.Object)
		}
		want.Children = release.Input(parts...)
	}
	return want
}

// wantOf returns the wanted owner of a release.
func (j *helmJob) wantOf(name helm.Release) release.Want {
	want := release.Want{
		Item: itemLabel(j.Owner), Installation: j.Request.Installation,
		TakeOverFrom: j.Request.DeployItem.Annotations[owner.TakeOverAnnotation],
		Claimed:      j.claims(name), Now: j.Began, Grace: pendingGrace,
	}
	if r := j.stored.Release; r != nil && releaseOf(r) == name {
		want.Restored = release.Restored{Installation: j.stored.Installation, Revision: r.Revision}
	}
	return want
}

// claims reports whether the item has deployed a release by its own record.
func (j *helmJob) claims(name helm.Release) bool {
	return j.fromLandscaper() || j.release != nil && j.release.Revision > 0 && releaseOf(j.release) == name
}

// learnCharts adds the names of two charts for the takeover of a release without an item: the deployed one and the
// wanted one.
func (j *helmJob) learnCharts(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, history []release.Revision, want *release.Want,
) error {
	if !release.Unclaimed(history, *want) {
		return nil
	}
	result, err := j.run(ctx, stepChart, &helm.Request{
		Action: helm.Values, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values, Options: c.Install,
	}, &observer{})
	if err != nil {
		return err
	}
	newest := &history[len(history)-1]
	want.Chart = result.Chart.Name
	if newest.Chart, err = release.ChartOf(ctx, j.Client, c.Release, newest.Version); err != nil {
		return job.During(stepRelease, err)
	}
	return nil
}

func itemLabel(o owner.Owner) string { return o.Labels()[owner.Label] }
