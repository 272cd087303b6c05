package objectjob

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// CleanUp deletes the managed objects no longer in the plan, as the deletion says. Objects applied by this job stay,
// even if a later call renders others.
func (j *Job) CleanUp(
	ctx context.Context, plan *apply.Plan, applied []apply.Applied, d prune.Deletion,
) (*sdk.Response, error) {
	wanted := j.Status.withSettled(plan.Keys())
	d.Entries, d.Spare = j.Status.Inventory.Without(wanted), wanted
	if len(d.Entries) == 0 {
		return nil, nil //nolint:nilnil // see Job
	}
	d.Applied = make(map[types.UID]bool, len(applied))
	for _, a := range applied {
		d.Applied[a.Live.GetUID()] = true
		if owners := a.Live.GetOwnerReferences(); len(owners) > 0 {
			d.Owned = append(d.Owned, objects.Owned{Key: a.Key, Owners: owners})
		}
	}
	return j.Remove(ctx, StepCleanUp, d)
}

// Unblock handles the error of Apply and returns it. If a webhook does not answer, it first deletes the webhook
// configurations dropped by the item, because they would hold up the update to remove them.
func (j *Job) Unblock(ctx context.Context, plan *apply.Plan, d prune.Deletion, err error) (*sdk.Response, error) {
	if !prune.IsBlocked(err) {
		return j.End(), err
	}
	wanted := j.Status.withSettled(plan.Keys())
	unwanted := j.Status.Inventory.Without(wanted)
	d.Entries = slices.DeleteFunc(unwanted, func(e managedresource.ManagedResourceStatus) bool {
		key := object.KeyOfReference(e.Resource)
		return !object.Intercepts(key.Group, key.Kind)
	})
	if len(d.Entries) == 0 { // the item has not dropped the webhook
		return j.End(), err
	}
	d.Spare = wanted
	if _, failed := j.Remove(ctx, StepCleanUp, d); failed != nil {
		err = errors.Join(err, failed)
	}
	return j.End(), err
}

// Remove deletes managed objects until they are gone.
func (j *Job) Remove(ctx context.Context, step string, d prune.Deletion) (*sdk.Response, error) {
	j.Request.Progress(step, fmt.Sprintf("deleting objects: %d", len(d.Entries)))
	result, err := prune.Run(ctx, j.Client, j.Deletion(d))
	gone := result.Gone
	if result.Unfinished {
		gone = gone[1:] // an entry is left for the next call
	}
	for _, key := range gone {
		j.Status.Inventory.Gone(key)
	}
	for _, left := range result.Left {
		j.Status.Inventory.Gone(left.Key)
		j.Request.Event(ReasonLeft, fmt.Sprintf("%s stays on the target: %s", left.Key, left.Why))
	}
	if err != nil {
		return j.End(), job.During(step, err)
	}
	if len(result.Waiting) > 0 {
		return j.Wait(step, "the deletion of ", result.Waiting, result.Seen), nil
	}
	return nil, nil //nolint:nilnil // see Job
}

// Deletion completes a deletion with the fields common to all deletions of the job.
func (j *Job) Deletion(d prune.Deletion) prune.Deletion {
	d.Owner, d.Lookup, d.AsOf = j.Owner, j.Lookup, j.Began
	d.AtHome = j.Request.Installation != "" && j.Request.Installation == string(j.Status.cluster)
	return d
}
