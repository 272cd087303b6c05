package deployer

import (
	"context"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	reasonUninstalled = "Uninstalled"
	// reasonLeft is the reason of the event about a release or object left on the target.
	reasonLeft = "LeftOnTarget"
)

// delete removes everything deployed by the item.
func (j *helmJob) delete(ctx context.Context, d *config.Deletion) (*sdk.Response, error) {
	switch {
	case j.stored.Kind == "":
		return j.deleteUnknown(ctx, d)
	case j.release != nil:
		return j.uninstall(ctx, releaseOf(j.release), d.Uninstall)
	case j.fromLandscaper() && d.HelmDeployment:
		return j.uninstall(ctx, d.Release, d.Uninstall)
	}
	return j.Remove(ctx, objectjob.StepDelete, prune.Deletion{Groups: d.Groups, Entries: j.Status.Inventory.Entries()})
}

// deleteUnknown deletes the item's release as identified on the target: the item has no record of a deployment, or has
// lost it.
func (j *helmJob) deleteUnknown(ctx context.Context, d *config.Deletion) (*sdk.Response, error) {
	history, err := release.History(ctx, j.Client, d.Release)
	if err != nil {
		return j.End(), job.During(stepUninstall, err)
	}
	if release.Of(history, j.wantOf(d.Release)) != owner.Ours {
		tellUnknown(j.Request, fmt.Sprintf("no release %s of this deploy item is on the target", nameOf(d.Release)))
		return nil, nil //nolint:nilnil // see job
	}
	return j.uninstall(ctx, d.Release, d.Uninstall)
}

// tellUnknown reports that nothing is deleted. Objects without a release are known only from the rendered chart.
func tellUnknown(req *sdk.Request, why string) {
	req.Event(reasonLeft, "nothing is deleted: the deploy item has no record of what it has deployed, and "+why)
}

// uninstall removes a release with its objects, and waits until they are gone.
func (j *helmJob) uninstall(ctx context.Context, name helm.Release, options helm.Options) (*sdk.Response, error) {
	history, strange, err := release.Revisions(ctx, j.Client, name)
	if err != nil {
		return j.End(), job.During(stepUninstall, err)
	}
	for _, secret := range strange {
		j.Request.Warning(reasonLeft, fmt.Sprintf("Secret %s/%s stays on the target: it has the labels of a revision of "+
			"release %s, but not the name of one", name.Namespace, secret, name.Name))
	}
	// The UIDs of objects from a failed or interrupted operation are not recorded yet.
	if err := j.identify(ctx, name); err != nil {
		return j.End(), err
	}
	decision := release.DecideRemoval(history, j.wantOf(name))
	switch decision.Action {
	case release.Leave:
		j.Request.Event(reasonLeft, fmt.Sprintf("release %s stays on the target: %s", nameOf(name), decision.Why))
		for _, entry := range j.Status.Inventory.Entries() {
			j.Status.Inventory.Gone(object.KeyOfReference(entry.Resource))
		}
		j.forgetRelease()
		return nil, nil //nolint:nilnil // see job
	case release.Wait:
		return j.Wait(stepUninstall, "", []string{decision.Why}, nil), nil
	case release.Uninstall:
		if err := j.runUninstall(ctx, name, decision, history, options); err != nil {
			return j.End(), err
		}
	default:
	}
	// Helm's deletions may take their time, and some may have failed.
	res, err := j.Remove(ctx, stepUninstall, prune.Deletion{
		Entries: j.Status.Inventory.Entries(), Kept: keptBy(name, keptAtUninstall),
	})
	if res == nil && err == nil {
		j.forgetRelease()
	}
	return res, err
}

func (j *helmJob) runUninstall(
	ctx context.Context, name helm.Release, decision release.Decision, history []release.Revision,
	options helm.Options,
) error {
	if err := j.Request.PickUp(ctx); err != nil {
		return err
	}
	j.warnOfInterrupted(name, decision)
	undeleted, err := j.undeleted(ctx)
	if err != nil {
		return err
	}
	j.Request.Progress(stepUninstall, fmt.Sprintf("uninstalling the release %s", nameOf(name)))
	newest := release.Newest(history)
	result, err := j.run(ctx, stepUninstall, &helm.Request{
		Action: helm.Uninstall, Release: name, Interrupted: decision.Interrupted, Options: j.bounded(ctx, options),
		Since: j.since(), Known: j.known(), Undeleted: undeleted,
		OnlyKnown: j.release != nil && newest.Input != "" && newest.Status != release.StatusDeployed,
	}, &observer{found: func(ctx context.Context, found []helm.Found) error { return j.noteFound(ctx, name, found) }})
	if err != nil {
		return err
	}
	message := fmt.Sprintf("release %s: uninstalled; revisions: %d", nameOf(name), len(history))
	if result.Kept != "" {
		message += "; kept: " + result.Kept
	}
	j.Request.Event(reasonUninstalled, message)
	return nil
}

// since returns the beginning of the job; zero in its first call.
func (j *helmJob) since() time.Time {
	times := j.Request.DeployItem.Status.TransitionTimes
	if j.First() || times == nil || times.InitTime == nil {
		return time.Time{}
	}
	return times.InitTime.Time
}
