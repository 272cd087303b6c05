package apply

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
)

// concurrency bounds how many objects are worked on at once, per call.
const concurrency = 8

// Applied is an object that is as its manifest says, or that its policy keeps from being changed.
type Applied struct {
	*Item
	// Live is the object as the API server returned it last.
	Live *unstructured.Unstructured
	// LastAppliedHash is for the inventory.
	LastAppliedHash string
	// Shared are fields that the manifest has dropped and that other field managers have set too, for the inventory.
	Shared string
	// Existed says that Run has found the object, and that it was not the deploy item's.
	Existed bool
	// Recognized says that Run has found the object with the label of the deploy item.
	Recognized bool
	// Settled says that the job has applied it in an earlier call; see Plan.Settled.
	Settled bool
}

// ToJudge returns what readiness is judged by.
func (a Applied) ToJudge() readiness.Object {
	return readiness.Object{Live: a.Live, Wanted: []map[string]any{a.Desired.Object, a.PatchAfterDeployment}}
}

// Owned is an object that is deleted together with its owners.
type Owned struct {
	Key    object.Key
	Owners []metav1.OwnerReference
}

// Skipped is an object that is not managed. The inventory drops it.
type Skipped struct {
	Key object.Key
	// Why is for people.
	Why string
}

// TakenOver is an object that belonged to another deploy item.
type TakenOver struct {
	Key object.Key
	// From names the other item, for people.
	From string
}

// Retained is an object that keeps fields.
type Retained struct {
	Key object.Key
	// Fields cannot be removed.
	Fields []string
	// Shared are fields that other managers have set too, with these.
	Shared []string
	// Path is that of the settings of the object, as in Manifest, where Force removes the shared fields; nil if they are too
	// many to be remembered.
	Path *field.Path
}

// Warning is what the API server warns of, such as a field that it drops.
type Warning struct {
	Key  object.Key
	Text string
}

// Result is what came of a plan. Everything in it has happened, also if other objects failed.
type Result struct {
	Applied []Applied
	Skipped []Skipped
	// Done are the objects that are done and gone.
	Done []*Item
	// Missing are the objects that Observe has not found. Run creates them.
	Missing []*Item
	// Waiting says why the plan cannot be completed yet; call again later. Empty if it is complete or failed.
	Waiting []string
	// Drift are the objects that others had changed: Run has repaired them, Observe has not.
	Drift []Drift
	// TakenOver are the objects that belonged to other deploy items until now.
	TakenOver []TakenOver
	// Retained are the objects that keep fields which their manifests have dropped.
	Retained []Retained
	// Unwritten are the objects whose writes the target has refused: they are as they were.
	Unwritten []object.Key
	// Warnings are what the API server has warned of, also about objects that have failed.
	Warnings []Warning
}

// add adds what came of an object, unless that is an error.
func (r *Result) add(item *Item, o outcome) {
	item = cmp.Or(o.item, item)
	switch {
	case o.action == done:
		r.Done = append(r.Done, item)
	case o.action == skip:
		r.Skipped = append(r.Skipped, Skipped{Key: item.Key, Why: o.why})
	case o.action == wait:
		r.Waiting = append(r.Waiting, o.why)
	case o.live == nil:
		r.Missing = append(r.Missing, item)
	default:
		r.Applied = append(r.Applied, Applied{
			Item: item, Live: o.live, LastAppliedHash: o.hash, Existed: o.existed(item),
			Recognized: o.recognized(item), Settled: o.settled, Shared: o.shared,
		})
	}
	if o.drift != nil {
		r.Drift = append(r.Drift, *o.drift)
	}
	if len(o.retained)+len(o.sharers) > 0 {
		slices.Sort(o.retained)
		retained := Retained{Key: item.Key, Fields: slices.Compact(o.retained), Shared: o.sharers}
		if o.shared != "" {
			retained.Path = item.Settings
		}
		r.Retained = append(r.Retained, retained)
	}
	if o.takenFrom != "" {
		r.TakenOver = append(r.TakenOver, TakenOver{Key: item.Key, From: o.takenFrom})
	}
}

// await adds what an object that was applied needs to be usable; nil needs nothing.
func (r *Result) await(live *unstructured.Unstructured) error {
	if live == nil {
		return nil
	}
	missing, err := established(live)
	if missing != "" {
		r.Waiting = append(r.Waiting, missing)
	}
	return err
}

// Each calls a function for all items, several at once, and returns its results in the order of the items.
func Each[I, R any](items []I, do func(I) R) []R {
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
func about(doing string, i *Item, err error) error {
	switch {
	case err == nil:
		return nil
	case i.Path == nil:
		return fmt.Errorf("%s %s: %w", doing, i.Key, err)
	default:
		return fmt.Errorf("%s: %s %s: %w", i.Path, doing, i.Key, err)
	}
}
