// Package releasejob carries out a call of the helm deployer with a release: it installs, upgrades, observes and
// uninstalls releases, and previews all this.
//
// The decisions are those of package release. This package reads the facts for them, has Helm carry them out, and
// records the results.
package releasejob

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// Reconcile brings the release to the state of the provider configuration. With force it makes a revision although
// nothing has changed.
func (d *Deployment) Reconcile(ctx context.Context, force bool) (*sdk.Response, error) {
	if former := d.former(); former != nil {
		if res, err := d.leave(ctx, former); res != nil || err != nil {
			return res, err
		}
	}
	history, err := d.history(ctx, stepRelease)
	if err != nil {
		return nil, err
	}
	found, err := d.find(ctx, history, force)
	if err != nil {
		return d.End(), err
	}
	var objects *observed
	var res *sdk.Response
	switch found.state {
	case made:
		objects, res, err = d.reread(ctx, history)
	case current:
		objects = d.keep(found)
	case drifted, outdated:
		objects, res, err = d.deploy(ctx, history, found)
	}
	if res != nil || err != nil {
		return res, err
	}
	// Helm has deleted the objects dropped by the chart; failed and slow deletions are left.
	if err := d.identify(ctx); err != nil {
		return d.End(), err
	}
	deletion := prune.Deletion{Kept: d.keptUnless(chartobject.KeptByAnnotation)}
	if res, err := d.CleanUp(ctx, objects.plan, objects.applied, deletion); res != nil || err != nil {
		return res, err
	}
	exports, res, err := d.CheckAndExport(ctx, d.config, d.archive, objects.applied)
	if res != nil || err != nil {
		return res, err
	}
	if found.state == current {
		d.restoreJob()
	}
	return d.Done(exports), nil
}

// keep records that the deployed revision is the wanted one.
func (d *Deployment) keep(found *finding) *observed {
	objects := found.objects
	d.warnOfTaken(found.decision)
	objects.drift = allOrNothing(objects.drift)
	d.noteDrift(objects)
	d.NoteApplied(objects.applied)
	d.Record.Release = &v1alpha1.ReleaseStatus{
		Name: d.name.Name, Namespace: d.name.Namespace, Revision: found.decision.Revision, JobID: d.Request.JobID,
	}
	return objects
}

// deploy makes the next revision, and returns its objects.
func (d *Deployment) deploy(
	ctx context.Context, history []release.Revision, found *finding,
) (*observed, *sdk.Response, error) {
	if res := d.announce(history, found.decision); res != nil {
		return nil, res, nil
	}
	if res, err := d.blocked(ctx, found.decision); res != nil || err != nil {
		return nil, res, err
	}
	objects, res, err := d.operation(found).run(ctx)
	if err == nil && res == nil && found.state == drifted {
		// A missing object never seen before was no drift, but to be created.
		d.noteDrift(found.objects)
	}
	return objects, res, err
}

// noteDrift records and reports the drift of objects.
func (d *Deployment) noteDrift(found *observed) {
	d.Status.NoteDrift(found.plan, found.drift)
	d.TellDrift(found.plan, apply.Result{Drift: found.drift})
}

// restoreJob drops the job of a revision found current, so that the status of an unchanged item stays the same. The job
// of a made revision is kept: should its result be lost, force makes no other one.
func (d *Deployment) restoreJob() {
	if stored := d.Record.Stored.Release; stored != nil {
		found := *d.Record.Release
		found.JobID = stored.JobID
		d.Record.Release = &found
	}
}
