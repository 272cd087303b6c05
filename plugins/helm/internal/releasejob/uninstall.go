package releasejob

import (
	"context"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
)

// UninstallUnrecorded uninstalls the item's release as identified on the target: the item has no record of a
// deployment, or has lost it.
func (r *Release) UninstallUnrecorded(ctx context.Context, options helm.Options) (*sdk.Response, error) {
	history, err := r.history(ctx, stepUninstall)
	if err != nil {
		return r.End(), err
	}
	if release.Of(history, r.wantOwner()) != owner.Ours {
		TellUnrecorded(r.Request, fmt.Sprintf("no release %s of this deploy item is on the target", r.name))
		return nil, nil //nolint:nilnil // see objectjob.Job
	}
	return r.Uninstall(ctx, options)
}

// TellUnrecorded reports that nothing is deleted. Objects without a release are known only from the rendered chart.
func TellUnrecorded(req *sdk.Request, why string) {
	req.Event(objectjob.ReasonLeft, "nothing is deleted: the deploy item has no record of what it has deployed, and "+why)
}

// Uninstall removes the release with its objects, and waits until they are gone.
func (r *Release) Uninstall(ctx context.Context, options helm.Options) (*sdk.Response, error) {
	history, strange, err := release.Revisions(ctx, r.Client, r.name)
	if err != nil {
		return r.End(), job.During(stepUninstall, err)
	}
	for _, secret := range strange {
		r.Request.Warning(objectjob.ReasonLeft, fmt.Sprintf(
			"Secret %s/%s stays on the target: it has the labels of a revision of "+
				"release %s, but not the name of one", r.name.Namespace, secret, r.name.Name))
	}
	// The UIDs of objects from a failed or interrupted operation are not recorded yet.
	if err := r.identify(ctx); err != nil {
		return r.End(), err
	}
	want := r.wantOwner()
	if want.Heir, err = r.heir(ctx, history); err != nil {
		return r.End(), err
	}
	decision := release.DecideRemoval(history, want)
	switch decision.Action {
	case release.Leave:
		r.leaveIt(decision.Why)
		return nil, nil //nolint:nilnil // see objectjob.Job
	case release.Bequeath:
		if err := r.handOver(ctx, history, want); err != nil {
			return r.End(), err
		}
		r.leaveIt(decision.Why)
		return nil, nil //nolint:nilnil // see objectjob.Job
	case release.Wait:
		return r.Wait(stepUninstall, "", []string{decision.Why}, nil), nil
	case release.Uninstall:
		if err := r.runUninstall(ctx, decision, history, options); err != nil {
			return r.End(), err
		}
	default:
	}
	// Helm's deletions may take their time, and some may have failed.
	res, err := r.Remove(ctx, stepUninstall, r.removal())
	if res == nil && err == nil {
		r.Record.ForgetRelease()
	}
	return res, err
}

// removal is the deletion of the objects of an uninstalled release.
func (r *Release) removal() prune.Deletion {
	return prune.Deletion{Entries: r.Status.Inventory.Entries(), Kept: r.keptUnless(chartobject.KeptByPolicy)}
}

// leaveIt forgets the release and its objects, and reports the reason.
func (r *Release) leaveIt(why string) {
	r.Request.Event(objectjob.ReasonLeft, fmt.Sprintf("release %s stays on the target: %s", r.name, why))
	for _, entry := range r.Status.Inventory.Entries() {
		r.Status.Inventory.Gone(object.KeyOfReference(entry.Resource))
	}
	r.Record.ForgetRelease()
}

func (r *Release) runUninstall(
	ctx context.Context, decision release.Decision, history []release.Revision, options helm.Options,
) error {
	if err := r.Request.PickUp(ctx); err != nil {
		return err
	}
	r.warnOfInterrupted(decision)
	undeleted, err := r.undeleted(ctx)
	if err != nil {
		return err
	}
	r.Request.Progress(stepUninstall, fmt.Sprintf("uninstalling the release %s", r.name))
	newest := release.Newest(history)
	result, err := r.Run(ctx, stepUninstall, &helm.Request{
		Action: helm.Uninstall, Release: r.name, Interrupted: decision.Interrupted, Options: bounded(ctx, options),
		Since: r.since(), Known: r.known(), Undeleted: undeleted,
		OnlyKnown: r.Record.Release != nil && newest.Input != "" && newest.Status != release.StatusDeployed,
	}, helmjob.Events{Found: r.noteFound})
	if err != nil {
		return err
	}
	message := fmt.Sprintf("release %s: uninstalled; revisions: %d", r.name, len(history))
	if result.Kept != "" {
		message += "; kept: " + result.Kept
	}
	r.Request.Event(reasonUninstalled, message)
	return nil
}

// since returns the beginning of the job; zero in its first call.
func (r *Release) since() time.Time {
	times := r.Request.DeployItem.Status.TransitionTimes
	if r.First() || times == nil || times.InitTime == nil {
		return time.Time{}
	}
	return times.InitTime.Time
}
