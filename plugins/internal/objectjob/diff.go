package objectjob

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
)

// Diff returns the changes Apply and CleanUp would make.
func (j *Job) Diff(ctx context.Context, plan *apply.Plan, d prune.Deletion) ([]sdk.Change, error) {
	plan.Held = j.held(ctx, plan)
	changes, owned, err := apply.Diff(ctx, j.Client, plan, j.Status.Inventory.Get)
	if err != nil {
		return nil, job.During(StepApply, err)
	}
	wanted := plan.Keys()
	d.Entries, d.Spare, d.Owned = j.Status.Inventory.Without(wanted), wanted, owned
	removed, err := prune.Diff(ctx, j.Client, j.Deletion(d))
	if err != nil {
		return nil, job.During(StepCleanUp, err)
	}
	return append(changes, removed...), nil
}

// held returns Plan.Held for a plan. It reads the objects kept by the deploy item once, at the first call.
func (j *Job) held(ctx context.Context, plan *apply.Plan) func(object.Key, types.UID) (string, error) {
	find := sync.OnceValues(func() (func(object.Key, types.UID) string, error) {
		entries := append(j.Status.Inventory.Without(plan.Keys()), plan.Kept()...)
		return prune.Holds(ctx, j.Client, j.Deletion(prune.Deletion{Entries: entries}))
	})
	return func(key object.Key, uid types.UID) (string, error) {
		why, err := find()
		if err != nil {
			return "", err
		}
		return why(key, uid), nil
	}
}
