package prune

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

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
