package prune

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// Run does the work possible now: it sends the deletions of the first unfinished group and looks for its remaining
// objects; without any, it goes on with the next group. Otherwise it ends with Result.Waiting and is to be called
// again with the entries that are neither gone nor left. It does not wait.
//
// Without entries it does nothing, with any groups: deleteAllResources is for deploy items that have deployed
// something. See Result.Unfinished.
//
// The error of one object stops neither the others of its group nor those already decided about, only the later
// groups. The errors of all are returned together, each with its object, if nothing is on its way or another attempt
// would not help (one of them has a code); then the job can only fail, or be retried as after other errors. Otherwise
// the caller calls again soon anyway, and Run tries those objects again, too: they are in Result.Waiting with their
// errors, and there is no error. The result is true in any case.
func Run(ctx context.Context, client *target.Client, d Deletion) (Result, error) {
	if len(d.Entries) == 0 {
		return Result{}, nil
	}
	work, err := begin(ctx, client, d)
	if err != nil {
		return Result{}, err
	}
	sorted, err := work.sort(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Gone: sorted.gone, Left: sorted.left}
	for i, s := range sorted.steps {
		err := work.do(ctx, s, sorted.steps[i+1:], &result)
		if err == nil && len(result.Waiting) == 0 {
			continue
		}
		result.Left = nil
		result.Unfinished = len(result.Gone) == len(d.Entries) && anyDeletesAll(sorted.steps[i:])
		return result, err
	}
	return result, nil
}
