package releasejob

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// An HTTP hook changes the objects of a rendering before the call to deploy them. A chart may have other objects for an
// upgrade than for an installation, so they have to be the objects of the very revision. Before the call it is known
// whether another revision is due because of the chart and the values. If one is due for another reason, such as drift
// or other changes of the hook, the call announces it in ReleaseStatus.Next, and the next call deploys it.

// RevisionToShow returns the revision to render for an HTTP hook, before the job sees the hook's changes.
func (d *Deployment) RevisionToShow(ctx context.Context) (int, error) {
	history, err := d.history(ctx, stepRelease)
	if err != nil {
		return 0, err
	}
	return d.shown(history), nil
}

func (d *Deployment) shown(history []release.Revision) int {
	want := d.want()
	want.AnyChildren, want.Force = true, d.announced(history)
	return release.Decide(history, want).RenderedAs()
}

// announced reports whether an earlier call has left the next revision to this one.
func (d *Deployment) announced(history []release.Revision) bool {
	status := d.Record.Release
	return status != nil && status.Next == release.Newest(history).Version+1
}

// announce leaves a revision to the next call if an HTTP hook has seen another one; nil otherwise. A retry has the
// objects of its attempt, and a first revision is always rendered as such.
func (d *Deployment) announce(history []release.Revision, decision release.Decision) *sdk.Response {
	if d.Request.Children == nil || decision.Action != release.Upgrade || decision.Retry > 0 ||
		d.shown(history) == decision.Revision {
		return nil
	}
	next := v1alpha1.ReleaseStatus{Name: d.name.Name, Namespace: d.name.Namespace}
	if d.Record.Release != nil {
		next = *d.Record.Release
	}
	next.Next = decision.Revision
	d.Record.Release = &next
	changes := fmt.Sprintf("the changes of the HTTP hook to the objects of revision %d", decision.Revision)
	return d.Wait(helmjob.StepRender, "", []string{changes}, nil)
}
