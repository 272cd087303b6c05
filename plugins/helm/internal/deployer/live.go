package deployer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/observe"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// releaseObjects are the objects of a release as they are on the target.
type releaseObjects struct {
	plan    *apply.Plan
	applied []apply.Applied
	// gone has the completed objects deleted since, and missing the other nonexistent ones.
	gone    []object.Key
	missing []*desired.Object
	// foreign has the objects of others by now.
	foreign []apply.Skipped
	// drift is their difference from the recorded state.
	drift []desired.Drift
}

// await reads the objects of the job's revision. Their drift since does not matter: controllers respond to the
// revision, and a new one for each response would never end.
func (j *helmJob) await(ctx context.Context, history []release.Revision) (*releaseObjects, *sdk.Response, error) {
	name := releaseOf(j.release)
	newest := release.Newest(history)
	if newest.Version != j.release.Revision || newest.Status != release.StatusDeployed {
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

// settle records the objects written by Helm, as they are now.
func (j *helmJob) settle(
	ctx context.Context, c *config.Config, objects []helm.Object,
) (*releaseObjects, *sdk.Response, error) {
	found, err := j.observe(ctx, c.Release, objects)
	if err != nil {
		return nil, j.End(), job.During(stepRelease, err)
	}
	j.disownSkipped(found.foreign)
	for _, a := range found.applied { // the inventory lacks the objects taken over
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

// look reads the objects of a revision.
func (j *helmJob) look(ctx context.Context, name helm.Release, revision int) (*releaseObjects, error) {
	objects, err := release.Read(ctx, j.Client, name, revision)
	if err != nil {
		return nil, err
	}
	return j.observe(ctx, name, objects)
}

// observe reads objects written by Helm.
func (j *helmJob) observe(ctx context.Context, name helm.Release, objects []helm.Object) (*releaseObjects, error) {
	plan, err := j.planOf(ctx, name, objects)
	if err != nil {
		return nil, err
	}
	plan.Done, plan.Settled = j.IsDone, j.Status.IsSettled
	result, err := observe.Run(ctx, j.Client, plan, j.Status.Inventory.Get, foreignTo(name), helmSelector)
	if err != nil {
		return nil, err
	}
	found := &releaseObjects{
		plan: plan, applied: result.Applied, missing: result.Missing, drift: result.Drift, foreign: result.Foreign,
	}
	j.NoteDone(result.Done)
	for _, item := range result.Done {
		found.gone = append(found.gone, item.Key)
	}
	return found, nil
}

// noteGone records the just created objects as completed if they are gone and need not stay, and returns the other
// missing ones.
func (j *helmJob) noteGone(found *releaseObjects) (others []*desired.Object) {
	for _, item := range found.missing {
		if !completion.NeedNotStay(item.Desired) {
			others = append(others, item)
			continue
		}
		j.Status.Inventory.Applied(item.Reference(), item.HashOfManifest())
		j.Status.Inventory.Done(item.Key, j.Request.JobID)
		j.NoteDone([]*desired.Object{item})
	}
	return others
}

// vanished returns the error about objects created by the job and missing since; nil for none.
func vanished(missing []*desired.Object) error {
	if len(missing) == 0 {
		return nil
	}
	errs := make([]error, 0, len(missing))
	for _, item := range missing {
		errs = append(errs, fmt.Errorf("%s: %w", item.Key, desired.Vanished(item)))
	}
	return job.During(stepRelease, target.Collect(errs))
}

// allOrNothing returns the drift of a release for a repair by a revision: a refused repair of one object would fail
// the revision, so the others are not repaired either.
func allOrNothing(drift []desired.Drift) []desired.Drift {
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
func refuses(drift []desired.Drift) bool {
	return slices.ContainsFunc(drift, func(d desired.Drift) bool { return d.Refused != "" })
}
