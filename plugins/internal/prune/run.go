package prune

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
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

// do does the work possible now on a group, and adds the outcome to the result. later are the groups after it.
func (d *deletion) do(ctx context.Context, s step, later []step, result *Result) error {
	outcomes := d.removeItems(ctx, s.items)
	failures := s.failures
	unfinished := map[object.Key]bool{}
	for i, o := range outcomes {
		key := s.items[i].key
		if o.state != stateGone {
			unfinished[key] = true
		}
		switch o.state {
		case stateGone:
			result.Gone = append(result.Gone, key)
		case stateLeft:
			result.Left = append(result.Left, Left{key, o.text})
			d.stays.add(key, s.items[i].mapping.Resource)
		case stateWaiting:
			result.Waiting = append(result.Waiting, o.text)
		case stateFailed:
			failures = append(failures, failure{key.String(), target.Explain(d.client.Host, o.err)})
		}
		if o.seen != nil {
			result.Seen = append(result.Seen, *o.seen)
		}
	}
	for _, f := range s.doubts {
		result.Waiting = append(result.Waiting, fmt.Sprintf("%s (%v)", f.what, f.err))
	}
	if s.group.all {
		rest := d.deleteUnmanaged(ctx, s.group, unfinished)
		failures = append(failures, rest.failures...)
		result.Waiting, result.Seen = append(result.Waiting, rest.waiting...), append(result.Seen, rest.seen...)
	}
	return errorOf(ctx, d.unblock(ctx, failures, later), result)
}

func (d *deletion) removeItems(ctx context.Context, items []item) []outcome {
	var wanted []objects.Wanted
	for _, it := range items {
		if !it.needsWhole() {
			wanted = append(wanted, objects.Wanted{Key: it.key, Mapping: it.mapping})
		}
	}
	listed := objects.List(ctx, objects.MetadataOnly(d.client), wanted, d.Owner.Selector().String())
	outcomes := objects.Each(items, func(it item) outcome { return it.remove(ctx, d, listed.Take(it.key)) })

	isUnserved := func(o outcome) bool { return notServed(o.err) }
	if !slices.ContainsFunc(outcomes, isUnserved) {
		return outcomes
	}
	// The client's knowledge of kinds is outdated: they are gone, or served in other versions only.
	d.client.Forget()
	for i, o := range outcomes {
		if isUnserved(o) {
			outcomes[i] = d.confirmUnserved(ctx, items[i])
		}
	}
	return outcomes
}

// confirmUnserved returns the outcome for an object after the API server did not serve its kind.
func (d *deletion) confirmUnserved(ctx context.Context, it item) outcome {
	gvk := object.GVK(it.entry.Resource.APIVersion, it.entry.Resource.Kind)
	_, err := d.client.MappingInAnyVersion(ctx, gvk, d.AsOf)
	doubt, unserved := "", meta.IsNoMatchError(err)
	if unserved {
		doubt, err = d.doubt(ctx, gvk, it.key)
	}
	switch {
	case err != nil:
		return failedWith(err)
	case doubt != "":
		return it.waiting(doubt)
	case unserved:
		return outcome{state: stateGone}
	default:
		return it.waiting("discovery lists its kind, but the API server answers 404")
	}
}

// errorOf returns the failures as one error, or adds them to Result.Waiting; see Run.
func errorOf(ctx context.Context, failures []failure, result *Result) error {
	errs := make([]error, 0, len(failures))
	for _, f := range failures {
		errs = append(errs, fmt.Errorf("delete %s: %w", f.what, f.err))
	}
	err := target.Collect(errs)
	if err == nil || len(result.Waiting) == 0 || len(sdk.Codes(err)) > 0 || ctx.Err() != nil {
		return err
	}
	for _, f := range failures {
		result.Waiting = append(result.Waiting, fmt.Sprintf("%s (cannot be deleted yet: %v)", f.what, f.err))
	}
	return nil
}
