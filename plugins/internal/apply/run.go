package apply

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// Run applies a plan, stage by stage, as far as it gets. The error joins the errors of all objects of the last stage
// begun, and those about unknown kinds; all objects applied until then, and beside them, are in the result all the
// same. Run does not wait: it ends with Result.Waiting.
func Run(ctx context.Context, client *target.Client, plan *Plan, recorded Recorded) (Result, error) {
	var result Result
	for _, i := range plan.ignored {
		result.Skipped = append(result.Skipped, Skipped{Key: i.Key, Why: "its policy is ignore"})
	}
	r := newRunner(client, plan, recorded)
	for _, stage := range plan.stages {
		var errs []error
		listed := r.list(ctx, stage)
		for i, o := range objects.Each(stage, func(item *desired.Object) outcome { return r.warned(ctx, item, listed) }) {
			result.Warnings = append(result.Warnings, o.warnings...)
			if o.unwritten {
				result.Unwritten = append(result.Unwritten, stage[i].Key)
			}
			err := target.Explain(client.Host, o.err)
			if err == nil {
				result.add(stage[i], o)
				err = result.await(o.live)
			}
			errs = append(errs, stage[i].About("apply", err))
		}
		r.applied = result.Applied
		if target.Collect(errs) != nil || len(result.Waiting) > 0 {
			return result, target.Collect(append(errs, plan.problems()...))
		}
	}
	return result, target.Collect(plan.problems())
}

// runner does the work on objects or, in a dry run, asks the API server for its result.
type runner struct {
	client   *target.Client
	plan     *Plan
	recorded Recorded
	dry      bool
	// applied are the objects of earlier stages.
	applied     []Applied
	autoscalers *ignore.Autoscalers
}

func newRunner(client *target.Client, plan *Plan, recorded Recorded) runner {
	return runner{client: client, plan: plan, recorded: recorded, autoscalers: NewAutoscalers(client, plan, recorded)}
}

// list reads the objects expected to exist, by the label of their owner, the same for all.
func (r runner) list(ctx context.Context, stage []*desired.Object) *objects.Listed {
	var expected []objects.Wanted
	selector := ""
	for _, i := range stage {
		if entry, ok := r.recorded(i.Key); ok && entry.Resource.UID != "" {
			expected = append(expected, objects.Wanted{Key: i.Key, Mapping: i.Mapping})
			selector = labels.Set{owner.Label: i.Labels()[owner.Label]}.String()
		}
	}
	return objects.List(ctx, objects.Whole(r.client), expected, selector)
}

// warned is apply with the warnings of the API server.
func (r runner) warned(ctx context.Context, i *desired.Object, listed *objects.Listed) outcome {
	var warnings []Warning
	o := r.apply(apiserver.WithWarnings(ctx, func(text string) {
		if w := (Warning{Key: i.Key, Text: text}); !slices.Contains(warnings, w) {
			warnings = append(warnings, w)
		}
	}), i, listed)
	o.warnings = warnings
	return o
}
