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
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	reasonInstalled = "Installed"
	reasonUpgraded  = "Upgraded"
	reasonRecovered = "Recovered"
	// reasonReleaseTaken is given to the error about a release that belongs to another deploy item.
	reasonReleaseTaken = "ReleaseTaken"
	// reasonReleaseChanged is given to the error about a release that another client has changed during the job.
	reasonReleaseChanged = "ReleaseChanged"
	// reasonTakenOver is given to the event about a release that belonged to another deploy item.
	reasonTakenOver = "TakenOver"
)

// pendingGrace is how long somebody else's operation on the release is waited for before it counts as interrupted. It
// is Helm's own default for how long an operation may take.
const pendingGrace = 5 * time.Minute

const (
	// waitTimeout bounds each wait of Helm if nothing else does. It is Helm's own default.
	waitTimeout = 5 * time.Minute
	// undoShare of the time that is left, and at most undoTime, is kept for undoing an atomic operation that fails.
	undoShare = 3
	undoTime  = 5 * time.Minute
)

// reconcileRelease brings the release to what the provider configuration says.
func (j *helmJob) reconcileRelease(ctx context.Context, c *config.Config, archive *chartsource.Archive, force bool) (*sdk.Response, error) {
	if res, err := j.leaveOtherRelease(ctx, c, archive); res != nil || err != nil {
		return res, err
	}
	objects, res, err := j.deployRelease(ctx, c, archive, force)
	if res != nil || err != nil {
		return res, err
	}
	// Helm has deleted what the chart does not have any more; what it could not delete, or what takes its time, is left
	// to do.
	if err := j.identify(ctx, c.Release); err != nil {
		return j.End(), err
	}
	deletion := prune.Deletion{Kept: keptBy(c.Release, kept)}
	if res, err := j.CleanUp(ctx, objects.plan, objects.applied, deletion); res != nil || err != nil {
		return res, err
	}
	return j.finish(ctx, c, archive, objects.applied)
}

// isMade reports whether an earlier call of the same job has made the revision, or has found it as it should be.
func (j *helmJob) isMade() bool { return j.release != nil && j.release.JobID == j.Request.JobID }

// leaveOtherRelease uninstalls the release that the deploy item has had so far if it is to have another one, and can
// have it.
func (j *helmJob) leaveOtherRelease(ctx context.Context, c *config.Config, archive *chartsource.Archive) (*sdk.Response, error) {
	if !j.leaves(c) {
		return nil, nil //nolint:nilnil // see job
	}
	old := releaseOf(j.release)
	history, err := release.History(ctx, j.Client, old)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	if release.Exists(history) { // otherwise it is only waited for the end of its objects
		if res, err := j.checkNext(ctx, c, archive); res != nil || err != nil {
			return res, err
		}
	}
	return j.uninstall(ctx, old, c.Uninstall)
}

// leaves tells whether the deploy item has a release and is to have another one.
func (j *helmJob) leaves(c *config.Config) bool {
	return j.release != nil && releaseOf(j.release) != c.Release
}

// checkNext finds out, before anything is changed, whether the release can be made that is to take the place of another
// one, and hands over to it what that keeps.
func (j *helmJob) checkNext(ctx context.Context, c *config.Config, archive *chartsource.Archive) (*sdk.Response, error) {
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

// blocked tells why nothing can be done about a release, if so.
func (j *helmJob) blocked(c *config.Config, decision release.Decision) (*sdk.Response, error) {
	switch decision.Action {
	case release.Conflict:
		return j.End(), job.During(stepRelease, sdk.ConfigurationError(reasonReleaseTaken, "release %s: %s", nameOf(c.Release), decision.Why))
	case release.Wait:
		return j.Wait(stepRelease, "", []string{decision.Why}, nil), nil
	default:
		return nil, nil //nolint:nilnil // see job
	}
}

// deployRelease installs or upgrades the release, unless it is as it should be, and returns its objects.
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
		// What was never seen, and was missing, was no drift to tell, but to be made.
		j.Status.NoteDrift(live.plan, live.drift)
		j.TellDrift(live.plan, apply.Result{Drift: live.drift})
	}
	return objects, res, err
}

// allOrNothing returns the drift of a release as a revision repairs it: it would fail over an object whose repair the
// target refuses, so that the others are not repaired either.
func allOrNothing(drift []apply.Drift) []apply.Drift {
	if !refuses(drift) {
		return drift
	}
	out := slices.Clone(drift)
	for i, d := range out {
		out[i].Refused = cmp.Or(d.Refused, "the repair of another object of the release is refused")
	}
	return out
}

// refuses reports whether the target refuses the repair of an object.
func refuses(drift []apply.Drift) bool {
	return slices.ContainsFunc(drift, func(d apply.Drift) bool { return d.Refused != "" })
}

// await reads the objects of the revision that the job has made. How they differ from it by now does not matter:
// controllers answer to what the job has made, and a revision for each answer would never end.
func (j *helmJob) await(ctx context.Context, history []release.Revision) (*releaseObjects, *sdk.Response, error) {
	name := releaseOf(j.release)
	if newest := release.Newest(history); newest.Version != j.release.Revision || newest.Status != release.StatusDeployed {
		return nil, j.End(), job.During(stepRelease, &sdk.Error{
			Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Reason: reasonReleaseChanged,
			Err: fmt.Errorf("release %s: another client has changed it while this job waited for revision %d, which is %s; "+
				"another job makes it as the deploy item says",
				nameOf(name), j.release.Revision, release.StatusOf(history, j.release.Revision)),
		})
	}
	found, err := j.look(ctx, name, j.release.Revision)
	if err != nil {
		return nil, j.End(), job.During(stepRelease, err)
	}
	j.disownSkipped(found.foreign)
	if err := vanished(found.missing); err != nil {
		return nil, j.End(), err
	}
	j.NoteApplied(found.applied)
	return found, nil, nil
}

// vanished returns the error about objects that are gone although the job has made them; nil for none.
func vanished(missing []*apply.Item) error {
	if len(missing) == 0 {
		return nil
	}
	errs := make([]error, 0, len(missing))
	for _, item := range missing {
		errs = append(errs, fmt.Errorf("%s: %w", item.Key, apply.Vanished(item)))
	}
	return job.During(stepRelease, target.Collect(errs))
}

// renderFirst leaves a revision to the next call if an HTTP hook has changed objects that were rendered for another
// one: a chart may have other objects for an upgrade than for an installation, and what the hook has made of those does
// not fit.
func (j *helmJob) renderFirst(
	c *config.Config, archive *chartsource.Archive, history []release.Revision, decision release.Decision,
) *sdk.Response {
	if j.Request.Children == nil || decision.Retry > 0 || decision.Action != release.Upgrade || j.renderedAs(c, archive, history) == decision.Revision {
		return nil
	}
	next := v1alpha1.ReleaseStatus{Name: c.Release.Name, Namespace: c.Release.Namespace}
	if j.release != nil {
		next = *j.release
	}
	next.Next = decision.Revision
	j.release = &next
	return j.Wait(stepRender, "", []string{fmt.Sprintf("the HTTP hook, which is to see the objects of revision %d", decision.Revision)}, nil)
}

// renderedAs returns the revision that the objects are rendered for before the job sees what an HTTP hook makes of
// them.
func (j *helmJob) renderedAs(c *config.Config, archive *chartsource.Archive, history []release.Revision) int {
	want := j.want(c, archive)
	want.AnyChildren, want.Force = true, j.goesOn(history)
	return release.Decide(history, want).RenderedAs()
}

// goesOn tells whether an earlier call has left a revision to this one, see renderFirst.
func (j *helmJob) goesOn(history []release.Revision) bool {
	return j.release != nil && j.release.Next > 0 && len(history) > 0 && j.release.Next == history[len(history)-1].Version+1
}

// want says what the release is to be.
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

// wantOf says who wants a release.
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

// claims reports whether the deploy item has deployed a release by its own account.
func (j *helmJob) claims(name helm.Release) bool {
	return j.fromLandscaper() || j.release != nil && j.release.Revision > 0 && releaseOf(j.release) == name
}

// learnCharts finds out which chart a release is of that belongs to no deploy item, and which one is to be deployed.
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

// enact does what was decided. gone are the objects of the release that are done and gone.
func (j *helmJob) enact(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, want release.Want, decision release.Decision, gone []object.Key,
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
	j.warnOfInterrupted(c.Release, decision)
	children := j.Request.Children
	if decision.Retry > 0 { // the objects of the attempt have those of an HTTP hook
		children, want.Children = nil, decision.Children
	}
	if decision.TakenFrom != "" {
		j.Request.Warning(reasonTakenOver, fmt.Sprintf("release %s is taken over from %s", nameOf(c.Release), decision.TakenFrom))
	}
	if decision.Adopted {
		j.Request.Warning(reasonTakenOver,
			fmt.Sprintf("release %s is taken over; it belonged to no deploy item", nameOf(c.Release)))
	}
	step, action, options, reason := stepUpgrade, helm.Upgrade, c.Upgrade, reasonUpgraded
	if decision.Action == release.Install {
		step, action, options, reason = stepInstall, helm.Install, c.Install, reasonInstalled
	}
	j.Request.Progress(step, fmt.Sprintf("making revision %d of the release %s", decision.Revision, nameOf(c.Release)))
	j.release = &v1alpha1.ReleaseStatus{Name: c.Release.Name, Namespace: c.Release.Namespace, Revision: j.deployedBefore(decision)}
	result, err := j.run(ctx, step, &helm.Request{
		Action: action, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values, CreateNamespace: c.CreateNamespace,
		Labels:         want.Labels(decision.Revision),
		RollbackLabels: want.RollbackLabels(decision.Revision + 1),
		Interrupted:    decision.Interrupted, Retry: decision.Retry, Gone: gone, Options: j.bounded(ctx, options),
		Known: j.known(),
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

// deployedBefore returns the revision that the deploy item has deployed last by its own account. As long as no revision
// has its label, this is all that tells that the release is the item's.
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

// warnOfInterrupted tells that an operation has ended before it was done.
func (j *helmJob) warnOfInterrupted(name helm.Release, decision release.Decision) {
	if len(decision.Interrupted) > 0 {
		j.Request.Warning(reasonRecovered, fmt.Sprintf(
			"release %s: marked the revisions %v as failed, whose operations have not come to their end",
			nameOf(name), decision.Interrupted))
	}
}

// expect notes the objects of the release and saves the note, before Helm creates any but those that are gone. Those of
// an HTTP hook take their places.
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
		// What Helm will write is not known to be what was written: the hash is made anew.
		j.Status.Inventory.Expect(item.Entry(), func(string) bool { return !slices.Contains(gone, item.Key) })
	}
	if err := j.Status.Save(ctx); err != nil {
		return nil, err
	}
	return objects, j.Request.PickUp(ctx)
}

// settle notes the objects that Helm has written, as they are now.
func (j *helmJob) settle(ctx context.Context, c *config.Config, objects []helm.Object) (*releaseObjects, *sdk.Response, error) {
	found, err := j.observe(ctx, c.Release, objects)
	if err != nil {
		return nil, j.End(), job.During(stepRelease, err)
	}
	j.disownSkipped(found.foreign)
	for _, a := range found.applied { // the inventory lacks what was taken over
		if _, noted := j.Status.Inventory.Get(a.Key); !noted {
			j.Status.Inventory.Expect(a.Entry(), a.Stale)
		}
	}
	j.NoteApplied(found.applied)
	if err := vanished(j.noteGone(found)); err != nil {
		return nil, j.End(), err
	}
	return found, nil, nil
}

// noteGone notes which objects that Helm has just created are done and gone already, and returns the others that are
// missing.
func (j *helmJob) noteGone(found *releaseObjects) (others []*apply.Item) {
	for _, item := range found.missing {
		if !readiness.NeedNotStay(item.Desired) {
			others = append(others, item)
			continue
		}
		j.Status.Inventory.Applied(item.Reference(), item.HashOfManifest())
		j.Status.Inventory.Done(item.Key, j.Request.JobID)
		j.NoteDone([]*apply.Item{item})
	}
	return others
}

// look reads the objects of a revision.
func (j *helmJob) look(ctx context.Context, name helm.Release, revision int) (*releaseObjects, error) {
	objects, err := release.Read(ctx, j.Client, name, revision)
	if err != nil {
		return nil, err
	}
	return j.observe(ctx, name, objects)
}

// releaseObjects are the objects of a release as they are on the target.
type releaseObjects struct {
	plan    *apply.Plan
	applied []apply.Applied
	// gone are those that do not exist because they are done, and missing those that do not exist and are not.
	gone    []object.Key
	missing []*apply.Item
	// foreign are those that belong to others by now.
	foreign []apply.Skipped
	// drift is how they differ from what they were when they were noted last.
	drift []apply.Drift
}

// observe reads objects that Helm has written.
func (j *helmJob) observe(ctx context.Context, name helm.Release, objects []helm.Object) (*releaseObjects, error) {
	plan, err := j.planOf(ctx, name, objects)
	if err != nil {
		return nil, err
	}
	plan.Done, plan.Settled, plan.Foreign = j.IsDone, j.Status.IsSettled, foreignTo(name)
	result, err := apply.Observe(ctx, j.Client, plan, j.Status.Inventory.Get, helmSelector)
	if err != nil {
		return nil, err
	}
	found := &releaseObjects{
		plan: plan, applied: result.Applied, missing: result.Missing, drift: result.Drift, foreign: result.Skipped,
	}
	j.NoteDone(result.Done)
	for _, item := range result.Done {
		found.gone = append(found.gone, item.Key)
	}
	return found, nil
}

// bounded returns the options of an operation that ends before the job has to, and leaves time to undo it if it is
// atomic.
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
	return &v1alpha1.ChartStatus{Name: chart.Name, Version: chart.Version, AppVersion: chart.AppVersion, Digest: archive.Digest}
}

func itemLabel(o owner.Owner) string { return o.Labels()[owner.Label] }
