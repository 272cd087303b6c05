package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/plugins/internal/apiserver"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// maxAttempts bounds the attempts for one object while others change, create or delete it.
const maxAttempts = 8

// Recorded returns the inventory's entry of an object before the call: without a uid in it, the object is created
// without being read before. It is called from several goroutines.
type Recorded func(object.Key) (e managedresource.ManagedResourceStatus, ok bool)

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
		for i, o := range Each(stage, func(item *Item) outcome { return r.warned(ctx, item, listed) }) {
			result.Warnings = append(result.Warnings, o.warnings...)
			if o.unwritten {
				result.Unwritten = append(result.Unwritten, stage[i].Key)
			}
			err := target.Explain(client.Host, o.err)
			if err == nil {
				result.add(stage[i], o)
				err = result.await(o.live)
			}
			errs = append(errs, about("apply", stage[i], err))
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
	list := func(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error) {
		mapping := target.Mapping{Resource: ignore.AutoscalerResource, Namespaced: true}
		return client.Objects(mapping, namespace).List(ctx, metav1.ListOptions{})
	}
	changes := ignore.Changes{Dropped: func(namespace, name string) bool {
		key := object.Key{Group: ignore.Kind.Group, Kind: ignore.Kind.Kind, Namespace: namespace, Name: name}
		_, known := recorded(key)
		_, wanted := plan.keys[key]
		return known && !wanted
	}}
	for _, i := range plan.Items() {
		changes.Wanted = append(changes.Wanted, i.Desired)
	}
	return runner{client: client, plan: plan, recorded: recorded, autoscalers: ignore.NewAutoscalers(list, changes)}
}

// list reads the objects expected to exist, by the label of their owner, the same for all.
func (r runner) list(ctx context.Context, stage []*Item) *Listed {
	var expected []Wanted
	selector := ""
	for _, i := range stage {
		if entry, ok := r.recorded(i.Key); ok && entry.Resource.UID != "" {
			expected = append(expected, Wanted{Key: i.Key, Mapping: i.Mapping})
			selector = labels.Set{owner.Label: i.labels()[owner.Label]}.String()
		}
	}
	return List(ctx, Whole(r.client), expected, selector)
}

// warned is apply with the warnings of the API server.
func (r runner) warned(ctx context.Context, i *Item, listed *Listed) outcome {
	var warnings []Warning
	o := r.apply(apiserver.WithWarnings(ctx, func(text string) {
		if w := (Warning{Key: i.Key, Text: text}); !slices.Contains(warnings, w) {
			warnings = append(warnings, w)
		}
	}), i, listed)
	o.warnings = warnings
	return o
}

// apply brings one object to its manifest. It begins with the inventory's entry. After a change by another client,
// the next attempt reads the object again.
func (r runner) apply(ctx context.Context, i *Item, listed *Listed) outcome {
	w := newWriter(r.client, i, r.dry)
	entry, noted := r.recorded(i.Key)
	// An object without a uid in the inventory was most likely never created: the job had to wait for a kind before.
	read := r.dry || entry.Resource.UID != "" || entry.Applied != "" ||
		i.Strategy == managedresource.UpdateStrategyApply || RuleOf(i.Policy).OursOnly
	var lastErr error
	var takenFrom string
	for range maxAttempts {
		live := listed.Take(i.Key)
		if live == nil && read {
			var err error
			if live, err = w.get(ctx, i); err != nil {
				return outcome{err: err}
			}
		}
		o, retry := r.attempt(ctx, w, i, entry, live)
		takenFrom = cmp.Or(o.takenFrom, takenFrom)
		if retry == nil && noted && !read && apierrors.IsForbidden(o.err) {
			retry = o.err // a quota forbids even the creation of an existing object
		}
		if retry == nil {
			o.takenFrom = takenFrom
			return o
		}
		if errors.Is(retry, errReplaced) {
			entry.DoneIn = "" // the completed object is not the deleted one
		}
		read, lastErr = true, retry
	}
	return outcome{err: fmt.Errorf("others keep changing it at the same time: %w", lastErr)}
}

// attempt decides about an object and acts. retry is the reason if the object is not in the expected state; then the
// outcome has only the former owner of an object deleted to be created anew.
func (r runner) attempt(
	ctx context.Context, w writer,
	i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (o outcome, retry error) {
	if entry.Shared != "" {
		known := *i
		if known.shared = recorded(entry.Shared, live); known.shared == nil {
			entry.Shared = ""
		}
		i = &known
	}
	i, o = r.decide(ctx, i, entry, live)
	o.shared = entry.Shared
	defer func() { o.item = i }()
	if o.action == create || o.action == compare || o.action == write {
		if unready := r.awaitServers(i, live); unready.action == wait || unready.err != nil {
			return unready, nil
		}
	}
	switch o.action {
	case create:
		return r.create(ctx, w, i, entry)
	case compare:
		// In a dry run, the change itself is the dry run.
		if !r.dry && changesNothing(ctx, w, i, live) {
			return outcome{action: leave, live: live, hash: hashOf(i, live), shared: o.shared}, nil
		}
		return r.change(ctx, w, i, entry, live)
	case write:
		return r.change(ctx, w, i, entry, live)
	case leave:
		if !o.settled { // a repair by patchAfterDeployment is drift, too
			o.drift = repaired(i, entry, live, live)
		}
		return o, nil
	default:
		return o, nil
	}
}

// decide returns the decision about an object, and the item with the object's fields of other clients.
func (r runner) decide(
	ctx context.Context, i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (*Item, outcome) {
	if live == nil {
		return i, r.plan.decide(i, entry, live)
	}
	i = i.ignoring(ignore.Bundles(i.Desired.Object, live.Object)...)
	o := r.plan.decide(i, entry, live)
	if o.action != compare && o.action != write {
		return i, o
	}
	i, err := r.withScaled(ctx, i, live)
	if err != nil {
		return i, outcome{before: live, err: err}
	}
	return i, r.plan.decide(i, entry, live)
}

// withScaled adds the replicas to the fields of other clients if an autoscaler scales the object.
func (r runner) withScaled(ctx context.Context, i *Item, live *unstructured.Unstructured) (*Item, error) {
	scaled, err := r.autoscalers.Scale(ctx, i.Desired.Object, live.Object)
	if err != nil || !scaled {
		return i, err
	}
	return i.ignoring(ignore.Replicas), nil
}

func (r runner) create(
	ctx context.Context, w writer, i *Item, entry managedresource.ManagedResourceStatus,
) (o outcome, retry error) {
	created, err := w.create(ctx, i)
	switch {
	case err == nil:
		return outcome{action: create, live: created, hash: hashOf(i, created), drift: missing(i, entry)}, nil
	case apierrors.IsAlreadyExists(err):
		return outcome{}, err
	case apierrors.IsNotFound(err) && !isNamespaceMissing(err):
		return r.notServed(i, err), nil
	default:
		return outcome{err: refusedCreation(r.client.Host, i, err)}, nil
	}
}

func (r runner) change(
	ctx context.Context, w writer,
	i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (o outcome, retry error) {
	takenFrom := ""
	if i.relation(live) == owner.Others || i.owner.IsMarkedElsewhere(live) {
		takenFrom = i.owner.Describe(live)
	}
	adopted := !i.owner.IsZero() && entry.Resource.UID == "" && i.relation(live) == owner.Nobodys
	written, out, retained, err := w.changeRetaining(ctx, i, live)
	if err == nil {
		shared := sharedFields(i, live, written)
		o = outcome{
			action: write, before: live, live: written, hash: hashOf(i, written),
			drift: repaired(i, entry, live, written), takenFrom: takenFrom, adopted: adopted,
			retained: retained, shared: recordOf(written, shared), sharers: describeShared(live, shared),
		}
		if i.Force && !r.dry {
			o.shared, o.sharers = "", nil // these are gone
		}
		if i.Strategy == managedresource.UpdateStrategyPatch &&
			!isMeant(i, mergePatch(content(live), content(out)), live, written) {
			o.hash = ""
		}
		return o, nil
	}
	o, retry = r.refused(ctx, w, i, live, takenFrom, err)
	unchanged := entry.Resource.UID == live.GetUID() && entry.Applied != "" && !i.Stale(entry.Applied)
	if retry == nil && o.err != nil && unchanged && apiserver.RefusesWrite(err) && !isFieldConflict(err) {
		// The item was deployed and has not changed: the refusal of its repair is reported, and is no failure of it.
		return outcome{
			action: leave, before: live, live: live, hash: entry.Applied, drift: notRepaired(i, live, o.err),
			shared: entry.Shared,
		}, nil
	}
	o.unwritten = o.err != nil && apiserver.RefusesWrite(err)
	return o, retry
}

// refused handles a refused change: an object is replaced if only a new one could have the change.
func (r runner) refused(
	ctx context.Context, w writer, i *Item, live *unstructured.Unstructured, takenFrom string, err error,
) (o outcome, retry error) {
	if isOutdated(err) {
		return outcome{}, err
	}
	if apierrors.IsInvalid(err) {
		switch immutable, unknown := isImmutable(ctx, w, i, live, err); {
		case unknown != nil:
			return outcome{before: live, err: undecided(err, unknown)}, nil
		case immutable:
			return r.replace(ctx, w, i, live, takenFrom, err)
		}
	}
	return outcome{before: live, err: refusedChange(i, err)}, nil
}

// replace deletes an object to be created anew, after the refusal of a change possible in a new one.
func (r runner) replace(
	ctx context.Context, w writer, i *Item, live *unstructured.Unstructured, takenFrom string, refused error,
) (o outcome, retry error) {
	lost, held := losses(live), ""
	if r.plan.Held != nil {
		var err error
		if held, err = r.plan.Held(i.Key, live.GetUID()); err != nil {
			return outcome{before: live, err: err}, nil //nolint:nilerr // the outcome has it
		}
	}
	if held != "" || !i.mayRecreate(lost) {
		return outcome{before: live, err: immutableField(i, lost, held, refused)}, nil
	}
	if lost != "" {
		lost = r.countLost(ctx, live, lost)
	}
	if r.dry {
		return outcome{action: recreate, before: live, why: lost}, nil
	}
	if lost != "" && r.plan.Recreating != nil {
		r.plan.Recreating(i.Key, lost)
	}
	// The inventory has the object, so nothing is lost if this is as far as it gets: the next call finds it missing.
	err := Delete(ctx, w.objects, live, true)
	switch {
	case err == nil:
		return outcome{takenFrom: takenFrom}, errReplaced
	case isOutdated(err):
		return outcome{}, err
	default:
		return outcome{before: live, err: refusedChange(i, err)}, nil
	}
}

// errReplaced is the reason to read a deleted object again.
var errReplaced = errors.New("it was deleted to be created anew, but exists again")

// isOutdated reports whether a write was refused because the object has changed, is gone, or is another one by now.
func isOutdated(err error) bool {
	anotherOne := func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }
	return apierrors.IsNotFound(err) || (apierrors.IsConflict(err) && !isFieldConflict(err)) ||
		slices.ContainsFunc(causes(err), anotherOne)
}

// changesNothing reports whether a write would change nothing, apart from the fields changed again by
// patchAfterDeployment. After a failed dry run, it might.
func changesNothing(ctx context.Context, w writer, i *Item, live *unstructured.Unstructured) bool {
	if i.Strategy == managedresource.UpdateStrategyApply && writtenOtherwise(live) {
		return false
	}
	written, _, _, err := w.dry().changeRetaining(ctx, i, live)
	return err == nil && same(i.finally(written), i.finally(live)) && len(sharedFields(i, live, written)) == 0
}

// notServed handles a resource unexpectedly unknown to the API server. Right after a CustomResourceDefinition was
// established this passes; otherwise the client's knowledge of kinds is outdated.
func (r runner) notServed(i *Item, err error) outcome {
	r.client.Forget()
	if i.definedHere {
		return outcome{action: wait, why: fmt.Sprintf("the API server to serve the kind of %s", i.Key)}
	}
	return outcome{err: err}
}
