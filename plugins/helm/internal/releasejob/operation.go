package releasejob

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
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

// operation is an installation or an upgrade.
type operation struct {
	*Deployment

	want     release.Want
	decision release.Decision
	// children are the objects of an HTTP hook; nil for none.
	children []sdk.Child
	// gone has the completed objects of the release deleted since.
	gone []object.Key
}

// operation returns the operation to make the next revision.
func (d *Deployment) operation(found *finding) *operation {
	o := &operation{Deployment: d, want: found.want, decision: found.decision, children: d.Request.Children}
	if found.objects != nil {
		o.gone = found.objects.gone
	}
	if o.decision.Retry > 0 { // the objects of the attempt have those of an HTTP hook
		o.children, o.want.Children = nil, o.decision.Children
	}
	return o
}

// run makes the revision, and returns its objects.
func (o *operation) run(ctx context.Context) (*observed, *sdk.Response, error) {
	undeleted, err := o.prepare(ctx)
	if err != nil {
		return nil, o.End(), err
	}
	step, action, options, reason := stepUpgrade, helm.Upgrade, o.config.Upgrade, reasonUpgraded
	if o.decision.Action == release.Install {
		step, action, options, reason = stepInstall, helm.Install, o.config.Install, reasonInstalled
	}
	o.Request.Progress(step, fmt.Sprintf("making revision %d of the release %s", o.decision.Revision, o.name))
	o.Record.Release = &v1alpha1.ReleaseStatus{
		Name: o.name.Name, Namespace: o.name.Namespace, Revision: o.deployedBefore(),
	}
	result, err := o.Run(ctx, step, &helm.Request{
		Action: action, Release: o.name, Chart: helm.Chart{Path: o.archive.Path}, Values: o.config.Values,
		CreateNamespace: o.config.CreateNamespace, Labels: o.want.Labels(o.decision.Revision),
		RollbackLabels: o.want.RollbackLabels(o.decision.Revision + 1),
		Interrupted:    o.decision.Interrupted, Retry: o.decision.Retry, Gone: o.gone, Options: bounded(ctx, options),
		Known: o.known(), Undeleted: undeleted,
	}, helmjob.Events{Rendered: o.expect, Found: o.noteFound})
	if err != nil {
		return nil, o.End(), err
	}
	o.Record.Release = &v1alpha1.ReleaseStatus{
		Name: o.name.Name, Namespace: o.name.Namespace, Revision: result.Revision, JobID: o.Request.JobID,
	}
	o.Record.NoteChart(result.Chart, o.archive)
	o.Request.Event(reason, fmt.Sprintf("release %s: revision %d of chart %s %s",
		o.name, result.Revision, o.Record.Chart.Name, o.Record.Chart.Version))
	return o.settle(ctx, result.Objects)
}

// prepare does what comes before Helm's work, and returns the objects not to be deleted by Helm.
func (o *operation) prepare(ctx context.Context) (undeleted []object.Key, err error) {
	if len(o.decision.Interrupted) > 0 { // Helm marks them before it renders
		if err := o.Request.PickUp(ctx); err != nil {
			return nil, err
		}
	}
	if err := o.identify(ctx); err != nil {
		return nil, err
	}
	if undeleted, err = o.undeleted(ctx); err != nil {
		return nil, err
	}
	o.warnOfInterrupted(o.decision)
	o.warnOfTaken(o.decision)
	return undeleted, nil
}

// warnOfTaken reports the former owner of the release.
func (r *Release) warnOfTaken(decision release.Decision) {
	if from := takenFrom(decision); from != "" {
		r.Request.Warning(objectjob.ReasonTakenOver, fmt.Sprintf("release %s %s", r.name, from))
	}
}

// takenFrom describes the former owner of a release in a takeover; empty for none.
func takenFrom(decision release.Decision) string {
	switch {
	case decision.TakenFrom != "":
		return "is taken over from " + decision.TakenFrom
	case decision.Adopted:
		return "is taken over; it belonged to no deploy item"
	default:
		return ""
	}
}

// expect saves the objects of the release in the inventory before Helm creates them, except for completed ones deleted
// since. The children of an HTTP hook take their places.
func (o *operation) expect(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	objects, err := chartobject.Replace(objects, o.children)
	if err != nil {
		return nil, err
	}
	plan, err := o.plan(ctx, objects)
	if err != nil {
		return nil, err
	}
	for _, item := range plan.Items() {
		// Helm's write may differ from the recorded one: the hash is made anew.
		stale := !slices.Contains(o.gone, item.Key)
		o.Status.Inventory.Expect(item.Entry(), func(string) bool { return stale })
	}
	if err := o.Status.Save(ctx); err != nil {
		return nil, err
	}
	return objects, o.Request.PickUp(ctx)
}

// deployedBefore returns the item's last deployed revision by its own record. Until a revision has its label, this
// record is the only proof of ownership.
func (o *operation) deployedBefore() int {
	switch {
	case o.Record.Release != nil:
		return o.Record.Release.Revision
	case o.Record.Deployed() == helmjob.ByLandscaper:
		return o.decision.Newest
	default:
		return 0
	}
}

// bounded returns options for an operation with an end before the job's, and with time to undo it if it is atomic.
func bounded(ctx context.Context, options helm.Options) helm.Options {
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
