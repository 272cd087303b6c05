package deployer

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

const (
	reasonInstalled = "Installed"
	reasonUpgraded  = "Upgraded"
	reasonRecovered = "Recovered"
	// reasonReleaseTaken is the reason of the error about a release of another item.
	reasonReleaseTaken = "ReleaseTaken"
	// reasonReleaseChanged is the reason of the error about a release changed by another client during the job.
	reasonReleaseChanged = "ReleaseChanged"
	// reasonTakenOver is the reason of the event about a takeover of a release or an object.
	reasonTakenOver = "TakenOver"
)

// reconcileRelease brings the release to the state of the provider configuration.
func (j *helmJob) reconcileRelease(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, force bool,
) (*sdk.Response, error) {
	if res, err := j.leaveOtherRelease(ctx, c, archive); res != nil || err != nil {
		return res, err
	}
	objects, res, err := j.deployRelease(ctx, c, archive, force)
	if res != nil || err != nil {
		return res, err
	}
	// Helm has deleted the objects dropped by the chart; failed and slow deletions are left.
	if err := j.identify(ctx, c.Release); err != nil {
		return j.End(), err
	}
	deletion := prune.Deletion{Kept: keptBy(c.Release, kept)}
	if res, err := j.CleanUp(ctx, objects.plan, objects.applied, deletion); res != nil || err != nil {
		return res, err
	}
	return j.finish(ctx, c, archive, objects.applied)
}

// isMade reports whether an earlier call of the same job has made the revision, or has found it up to date.
func (j *helmJob) isMade() bool { return j.release != nil && j.release.JobID == j.Request.JobID }

// deployRelease installs or upgrades the release, unless it is up to date, and returns its objects.
func (j *helmJob) deployRelease(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, force bool,
) (*releaseObjects, *sdk.Response, error) {
	history, err := release.History(ctx, j.Client, c.Release)
	if err != nil {
		return nil, nil, job.During(stepRelease, err)
	}
	if j.isMade() {
		return j.await(ctx, history)
	}
	want := j.want(c, archive)
	want.Force = force || j.goesOn(history)
	if err := j.learnCharts(ctx, c, archive, history, &want); err != nil {
		return nil, j.End(), err
	}
	decision := release.Decide(history, want)
	live := &releaseObjects{}
	if decision.Action == release.Nothing {
		if live, err = j.look(ctx, c.Release, decision.Revision); err != nil {
			return nil, j.End(), job.During(stepRelease, err)
		}
		j.disownSkipped(live.foreign)
		if len(live.missing) == 0 && (len(live.drift) == 0 || refuses(live.drift)) {
			live.drift = allOrNothing(live.drift)
			j.Status.NoteDrift(live.plan, live.drift)
			j.TellDrift(live.plan, apply.Result{Drift: live.drift})
			j.NoteApplied(live.applied)
			j.release = &v1alpha1.ReleaseStatus{
				Name: c.Release.Name, Namespace: c.Release.Namespace, Revision: decision.Revision, JobID: j.Request.JobID,
			}
			j.found = true
			return live, nil, nil
		}
		want.Drifted = true
		decision = release.Decide(history, want)
	}
	if res := j.renderFirst(c, archive, history, decision); res != nil {
		return nil, res, nil
	}
	objects, res, err := j.enact(ctx, c, archive, want, decision, live.gone)
	if err == nil && res == nil {
		// A missing object never seen before was no drift, but to be created.
		j.Status.NoteDrift(live.plan, live.drift)
		j.TellDrift(live.plan, apply.Result{Drift: live.drift})
	}
	return objects, res, err
}

// blocked returns the reason against any operation on a release, as an error or a wait; nothing for none.
func (j *helmJob) blocked(c *config.Config, decision release.Decision) (*sdk.Response, error) {
	switch decision.Action {
	case release.Conflict:
		err := sdk.ConfigurationError(reasonReleaseTaken, "release %s: %s", nameOf(c.Release), decision.Why)
		return j.End(), job.During(stepRelease, err)
	case release.Wait:
		return j.Wait(stepRelease, "", []string{decision.Why}, nil), nil
	default:
		return nil, nil //nolint:nilnil // see job
	}
}

// renderFirst leaves a revision to the next call if an HTTP hook has changed objects of a rendering for another one: a
// chart may have other objects for an upgrade than for an installation, and the hook's changes would not fit.
func (j *helmJob) renderFirst(
	c *config.Config, archive *chartsource.Archive, history []release.Revision, decision release.Decision,
) *sdk.Response {
	upgrades := decision.Action == release.Upgrade && decision.Retry == 0
	if j.Request.Children == nil || !upgrades || j.renderedAs(c, archive, history) == decision.Revision {
		return nil
	}
	next := v1alpha1.ReleaseStatus{Name: c.Release.Name, Namespace: c.Release.Namespace}
	if j.release != nil {
		next = *j.release
	}
	next.Next = decision.Revision
	j.release = &next
	hook := fmt.Sprintf("the HTTP hook, which is to see the objects of revision %d", decision.Revision)
	return j.Wait(stepRender, "", []string{hook}, nil)
}

// renderedAs returns the revision of the rendering for an HTTP hook, before the job sees the hook's changes.
func (j *helmJob) renderedAs(c *config.Config, archive *chartsource.Archive, history []release.Revision) int {
	want := j.want(c, archive)
	want.AnyChildren, want.Force = true, j.goesOn(history)
	return release.Decide(history, want).RenderedAs()
}

// goesOn reports whether an earlier call has left a revision to this one, see renderFirst.
func (j *helmJob) goesOn(history []release.Revision) bool {
	return j.release != nil && j.release.Next > 0 && len(history) > 0 && j.release.Next == release.Newest(history).Version+1
}
