package releasejob

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/observe"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// helmSelector selects Helm's objects.
var helmSelector = labels.Set{"app.kubernetes.io/managed-by": "Helm"}

// observed are the objects of a release as they are on the target.
type observed struct {
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

// reread reads the objects of the job's revision. Their drift since does not matter: controllers respond to the
// revision, and a new one for each response would never end.
func (d *Deployment) reread(ctx context.Context, history []release.Revision) (*observed, *sdk.Response, error) {
	revision := d.Record.Release.Revision
	newest := release.Newest(history)
	if newest.Version != revision || newest.Status != release.StatusDeployed {
		return nil, d.End(), job.During(stepRelease, &sdk.Error{
			Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Reason: reasonReleaseChanged,
			Err: fmt.Errorf("release %s: another client has changed it while this job waited for revision %d, now %s; "+
				"the next job deploys the chart of the deploy item again",
				d.name, revision, release.StatusOf(history, revision)),
		})
	}
	found, err := d.look(ctx, revision)
	if err != nil {
		return nil, d.End(), job.During(stepRelease, err)
	}
	d.disownSkipped(found.foreign)
	if err := vanished(found.missing); err != nil {
		return nil, d.End(), err
	}
	d.NoteApplied(found.applied)
	return found, nil, nil
}

// settle records the objects written by Helm, as they are now.
func (r *Release) settle(ctx context.Context, objects []helm.Object) (*observed, *sdk.Response, error) {
	found, err := r.observe(ctx, objects)
	if err != nil {
		return nil, r.End(), job.During(stepRelease, err)
	}
	r.disownSkipped(found.foreign)
	for _, a := range found.applied { // the inventory lacks the objects taken over
		if _, noted := r.Status.Inventory.Get(a.Key); !noted {
			r.Status.Inventory.Expect(a.Entry(), a.Stale)
		}
	}
	r.NoteApplied(found.applied)
	if err := vanished(r.noteGone(found)); err != nil {
		return nil, r.End(), err
	}
	return found, nil, nil
}

// look reads the objects of a revision.
func (r *Release) look(ctx context.Context, revision int) (*observed, error) {
	objects, err := release.Read(ctx, r.Client, r.name, revision)
	if err != nil {
		return nil, err
	}
	return r.observe(ctx, objects)
}

// observe reads objects written by Helm.
func (r *Release) observe(ctx context.Context, objects []helm.Object) (*observed, error) {
	plan, err := r.plan(ctx, objects)
	if err != nil {
		return nil, err
	}
	plan.Done, plan.Settled = r.IsDone, r.Status.IsSettled
	result, err := observe.Run(ctx, r.Client, plan, r.Status.Inventory.Get, r.foreign, helmSelector)
	if err != nil {
		return nil, err
	}
	found := &observed{
		plan: plan, applied: result.Applied, missing: result.Missing, drift: result.Drift, foreign: result.Foreign,
	}
	r.NoteDone(result.Done)
	for _, item := range result.Done {
		found.gone = append(found.gone, item.Key)
	}
	return found, nil
}

// plan returns a plan of objects written by Helm, for reading them.
func (r *Release) plan(ctx context.Context, objects []helm.Object) (*apply.Plan, error) {
	manifests, err := chartobject.Manifests(objects, r.name.Namespace, r.Ignored)
	if err != nil {
		return nil, err
	}
	return apply.NewPlan(ctx, r.Client, manifests, owner.Owner{}, r.Began)
}

// noteGone records the just created objects as completed if they are gone and need not stay, and returns the other
// missing ones.
func (r *Release) noteGone(found *observed) (others []*desired.Object) {
	for _, item := range found.missing {
		if !completion.NeedNotStay(item.Desired) {
			others = append(others, item)
			continue
		}
		r.Status.Inventory.Applied(item.Reference(), item.HashOfManifest())
		r.Status.Inventory.Done(item.Key, hook.FirstJob(r.Request.DeployItem))
		r.NoteDone([]*desired.Object{item})
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
