package objectjob

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk"
)

// Diff returns the changes Apply and CleanUp would make.
//
// Objects taken over from Landscaper, which it may not have waited for, have the reason why they are not ready.
func (j *Job) Diff(
	ctx context.Context, plan *apply.Plan, d prune.Deletion, checks readiness.Checks,
) ([]sdk.Change, error) {
	plan.Held = j.held(ctx, plan)
	var taken []apply.Applied
	plan.TakingOver = func(a apply.Applied) { taken = append(taken, a) }
	changes, owned, err := apply.Diff(ctx, j.Client, plan, j.Status.Inventory.Get)
	if err != nil {
		return nil, job.During(StepApply, err)
	}
	if changes, err = j.AddWaits(ctx, checks, taken, changes); err != nil {
		return nil, err
	}
	wanted := plan.Keys()
	d.Entries, d.Spare, d.Owned = j.Status.Inventory.Without(wanted), wanted, owned
	removed, err := prune.Diff(ctx, j.Client, j.Deletion(d))
	if err != nil {
		return nil, job.During(StepCleanUp, err)
	}
	return append(changes, removed...), nil
}

// AddWaits adds to the changes why the job waits for objects that are not ready by their kinds. An object that does not
// change gets a change of its own.
func (j *Job) AddWaits(
	ctx context.Context, checks readiness.Checks, applied []apply.Applied, changes []sdk.Change,
) ([]sdk.Change, error) {
	if !checks.ByKind() {
		return changes, nil
	}
	for _, a := range applied {
		// One at a time, as the verdict names no objects. The custom checks are not about what was taken over.
		verdict, err := readiness.Checks{}.Run(ctx, []readiness.Object{a.ToJudge()}, nil, j.Lookup, j.Began)
		if err != nil {
			return nil, job.During(StepReadiness, err)
		}
		for _, why := range slices.Concat(verdict.Waiting, verdict.Failed) {
			why = strings.TrimPrefix(why, a.Key.String()+": ")
			at := slices.IndexFunc(changes, func(c sdk.Change) bool { return c.Object == a.Key.String() })
			if at < 0 {
				changes = append(changes, sdk.Change{
					Object: a.Key.String(), Action: sdk.ActionKeep, Before: objects.Document(a.Live), Waits: why,
				})
				continue
			}
			changes[at].Waits = why
		}
	}
	return changes, nil
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
