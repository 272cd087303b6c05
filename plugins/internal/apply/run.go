package apply

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// concurrency bounds how many objects are worked on at once, per call.
const concurrency = 8

// Recorded returns what the ledger held about an object before the call: one that it did not hold with a uid is created without being
// looked for. It is called from several goroutines.
type Recorded func(object.Key) (e managedresource.ManagedResourceStatus, ok bool)

// Applied is an object that is as its manifest says, or that its policy keeps from being changed.
type Applied struct {
	*Item
	// Live is the object as the API server returned it last.
	Live *unstructured.Unstructured
	// Memo is for the ledger.
	Memo string
}

// Skipped is an object that is not managed. The ledger drops it.
type Skipped struct {
	Key object.Key
	// Why is for people.
	Why string
}

// TakenOver is an object that belonged to another deploy item.
type TakenOver struct {
	Key object.Key
	// From is what the label of the other item says.
	From string
}

// Result is what came of a plan. Everything in it has happened, also if other objects failed.
type Result struct {
	Applied []Applied
	Skipped []Skipped
	// Done are the objects that are done and gone.
	Done []*Item
	// Waiting says why the plan cannot be completed yet; call again later. Empty if it is complete or failed.
	Waiting []string
	// Drift are the objects that others had changed and that were repaired.
	Drift []Drift
	// TakenOver are the objects that belonged to other deploy items until now.
	TakenOver []TakenOver
}

// Run applies a plan, stage by stage, as far as it gets. The error holds those of all objects of the stage in which it
// ended, and those about unknown kinds; what was applied until then, and beside it, is in the result all the same. Run does not wait: it
// ends with Result.Waiting.
func Run(ctx context.Context, client *target.Client, plan *Plan, recorded Recorded) (Result, error) {
	result := Result{Skipped: plan.skipped}
	r := runner{client: client, plan: plan, recorded: recorded}
	for _, stage := range plan.stages {
		var errs []error
		known := r.readAhead(ctx, stage)
		for i, o := range each(stage, func(item *Item) outcome { return r.bring(ctx, item, known) }) {
			errs = append(errs, about("apply", stage[i].Path, stage[i].Key, target.Explain(client.Host, o.err)))
			result.add(stage[i], o)
			if o.live != nil {
				missing, err := established(o.live)
				result.wait(missing)
				errs = append(errs, about("apply", stage[i].Path, stage[i].Key, err))
			}
		}
		if target.Collect(errs) != nil || len(result.Waiting) > 0 {
			return result, target.Collect(append(errs, plan.problems()...))
		}
	}
	return result, target.Collect(plan.problems())
}

// each calls a function for all items of a stage, several at once, and returns its results in the order of the items.
func each[I, R any](items []I, do func(I) R) []R {
	results := make([]R, len(items))
	var workers errgroup.Group
	workers.SetLimit(concurrency)
	for i, item := range items {
		workers.Go(func() error {
			results[i] = do(item)
			return nil
		})
	}
	_ = workers.Wait() // the errors are in the results
	return results
}

// about says which object an error is about, and where that is in the configuration; nil for nil.
func about(doing string, path *field.Path, key object.Key, err error) error {
	switch {
	case err == nil:
		return nil
	case path == nil:
		return fmt.Errorf("%s %s: %w", doing, key, err)
	default:
		return fmt.Errorf("%s: %s %s: %w", path, doing, key, err)
	}
}

// outcome is what came of one object: live, done, skipped, waiting or err is set, and drift and takenFrom beside live.
type outcome struct {
	live      *unstructured.Unstructured
	memo      string
	drift     *Drift
	takenFrom string

	done    bool
	skipped string
	waiting string
	err     error
}

// wait adds what is waited for, if anything is.
func (r *Result) wait(what string) {
	if what != "" {
		r.Waiting = append(r.Waiting, what)
	}
}

func (r *Result) add(item *Item, o outcome) {
	switch {
	case o.err != nil:
		return
	case o.done:
		r.Done = append(r.Done, item)
		return
	case o.skipped != "":
		r.Skipped = append(r.Skipped, Skipped{Key: item.Key, Why: o.skipped})
		return
	case o.waiting != "":
		r.wait(o.waiting)
		return
	}
	r.Applied = append(r.Applied, Applied{Item: item, Live: o.live, Memo: o.memo})
	if o.drift != nil {
		r.Drift = append(r.Drift, *o.drift)
	}
	if o.takenFrom != "" {
		r.TakenOver = append(r.TakenOver, TakenOver{Key: item.Key, From: o.takenFrom})
	}
}
