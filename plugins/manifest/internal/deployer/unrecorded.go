package deployer

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// deleteUnrecorded deletes a deploy item without a provider status: it was never deployed, or its control plane was
// restored without statuses. It deletes the objects of the manifests with the label of the item. An event says that
// other deployed objects are unknown. An unreadable configuration or an unusable target does not hold the deletion
// up: most such items failed over just that, and deployed nothing.
func (d *Deployer) deleteUnrecorded(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	j, unread, err := d.findUnrecorded(ctx, req)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	var entries []managedresource.ManagedResourceStatus
	if j != nil {
		entries = j.Status.Inventory.Entries()
	}
	text := fmt.Sprintf("the deploy item has no provider status: "+
		"only objects of its manifests that bear its label are deleted, and there are %d", len(entries))
	if unread != nil {
		text += fmt.Sprintf(", as far as they can be looked for (%v)", unread)
	}
	req.Event(objectjob.ReasonNoStatus, text+"; "+objectjob.ListUnrecorded(req.DeployItem))
	if j == nil || len(entries) == 0 {
		return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
	}
	groups, err := objectconfig.ReadDeletionGroups(req, d.settings.Strict)
	if err != nil {
		return nil, err
	}
	res, err := j.Remove(ctx, objectjob.StepDelete, prune.Deletion{Groups: groups, Entries: entries})
	if res != nil || err != nil {
		return res, err
	}
	return j.Done(nil), nil
}

// findUnrecorded returns a job whose inventory has the existing objects of the manifests with the label of the deploy
// item. unread is the reason why some were not looked for; without a job, none were. The error is a passing one.
func (d *Deployer) findUnrecorded(ctx context.Context, req *sdk.Request) (j *objectjob.Job, unread, err error) {
	c, err := d.readConfig(req)
	if err != nil {
		return nil, err, nil
	}
	j, err = d.begin(ctx, req)
	if err != nil {
		return nil, err, nil
	}
	plan, err := apply.NewPlan(ctx, j.Client, c.Manifests, j.Owner, j.Began)
	if plan == nil {
		return nil, err, nil
	}
	unread = cmp.Or(err, plan.Down())
	type result struct {
		own bool
		err error
	}
	items := plan.Items()
	for i, found := range objects.Each(items, func(i *desired.Object) result {
		live, err := j.Client.Metadata(i.Mapping, i.Key.Namespace).Get(ctx, i.Key.Name, metav1.GetOptions{})
		return result{err == nil && j.Owner.Of(live) == owner.Ours, err}
	}) {
		switch {
		case found.own:
			j.Status.Inventory.Expect(items[i].Entry(), items[i].Stale)
		case found.err == nil, apierrors.IsNotFound(found.err):
		case apierrors.IsForbidden(found.err):
			unread = found.err
		default:
			return nil, nil, target.Explain(j.Client.Host, found.err)
		}
	}
	return j, unread, nil
}
