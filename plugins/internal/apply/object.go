package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// maxAttempts bounds the attempts for one object while others change, create or delete it.
const maxAttempts = 8

// apply brings one object to its manifest. It begins with the inventory's entry. After a change by another client,
// the next attempt reads the object again.
func (r runner) apply(ctx context.Context, i *desired.Object, listed *objects.Listed) outcome {
	w := newWriter(r.client, i, r.dry)
	entry, noted := r.recorded(i.Key)
	// An object without a uid in the inventory was most likely never created: the job had to wait for a kind before.
	read := r.dry || entry.Resource.UID != "" || entry.Applied != "" ||
		i.Strategy == managedresource.UpdateStrategyApply || objects.RuleOf(i.Policy).OursOnly
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
	i *desired.Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (o outcome, retry error) {
	if entry.Shared != "" {
		known := *i
		if known.Shared = managedfields.Recorded(entry.Shared, live); known.Shared == nil {
			entry.Shared = ""
		}
		i = &known
	}
	i, o = r.decide(ctx, i, entry, live)
	o.shared = entry.Shared
	defer func() { o.object = i }()
	if o.action == desired.ActionCreate || o.action == desired.ActionCompare || o.action == desired.ActionWrite {
		if unready := r.awaitServers(i, live); unready.action == desired.ActionWait || unready.err != nil {
			return unready, nil
		}
	}
	switch o.action {
	case desired.ActionCreate:
		return r.create(ctx, w, i, entry)
	case desired.ActionCompare:
		// In a dry run, the change itself is the dry run.
		if !r.dry && changesNothing(ctx, w, i, live) {
			return outcome{action: desired.ActionLeave, live: live, hash: i.Hash(live), leftovers: o.leftovers}, nil
		}
		return r.change(ctx, w, i, entry, live)
	case desired.ActionWrite:
		return r.change(ctx, w, i, entry, live)
	case desired.ActionLeave:
		o.drift = desired.Repaired(i, entry, live, live) // a repair by patchAfterDeployment is drift, too
		return o, nil
	default:
		return o, nil
	}
}

// decide returns the decision about an object, with the fields of other clients found in it.
func (r runner) decide(
	ctx context.Context, i *desired.Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (*desired.Object, outcome) {
	if live == nil {
		return i, outcomeOf(r.plan.Decide(i, entry, live), live)
	}
	i = i.Ignoring(ignore.Bundles(i.Desired.Object, live.Object)...)
	o := outcomeOf(r.plan.Decide(i, entry, live), live)
	if o.action != desired.ActionCompare && o.action != desired.ActionWrite {
		return i, o
	}
	i, err := IgnoringScaled(ctx, r.autoscalers, i, live)
	if err != nil {
		return i, outcome{before: live, err: err}
	}
	return i, outcomeOf(r.plan.Decide(i, entry, live), live)
}

func (r runner) create(
	ctx context.Context, w writer, i *desired.Object, entry managedresource.ManagedResourceStatus,
) (o outcome, retry error) {
	created, err := w.create(ctx, i)
	switch {
	case err == nil:
		return outcome{
			action: desired.ActionCreate, live: created, hash: i.Hash(created), drift: desired.Missing(i, entry),
		}, nil
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
	i *desired.Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (o outcome, retry error) {
	takenFrom := ""
	if i.Relation(live) == owner.Others || i.Owner.IsMarkedElsewhere(live) {
		takenFrom = i.Owner.Describe(live)
	}
	adopted := !i.Owner.IsZero() && entry.Resource.UID == "" && i.Relation(live) == owner.Nobodys
	written, out, retained, err := w.changeRetaining(ctx, i, live)
	if err == nil {
		shared := sharedFields(i, live, written)
		o = outcome{
			action: desired.ActionWrite, before: live, live: written, hash: i.Hash(written),
			drift: desired.Repaired(i, entry, live, written), takenFrom: takenFrom, adopted: adopted,
			leftovers: leftovers{
				retained: retained, shared: managedfields.Record(written, shared), sharers: managedfields.Describe(live, shared),
			},
		}
		if i.Force && !r.dry {
			o.shared, o.sharers = "", nil // these are gone
		}
		if i.Strategy == managedresource.UpdateStrategyPatch &&
			!i.IsMeant(objects.MergePatch(objects.Content(live), objects.Content(out)), live, written) {
			o.hash = ""
		}
		return o, nil
	}
	o, retry = r.refused(ctx, w, i, live, takenFrom, err)
	unchanged := entry.Resource.UID == live.GetUID() && entry.Applied != "" && !i.Stale(entry.Applied)
	if retry == nil && o.err != nil && unchanged && apiserver.RefusesWrite(err) && !isFieldConflict(err) {
		// The manifest was applied and has not changed: the refusal of its repair is reported, and is no failure of it.
		return outcome{
			action: desired.ActionLeave, before: live, live: live, hash: entry.Applied,
			drift: desired.NotRepaired(i, live, o.err), leftovers: leftovers{shared: entry.Shared},
		}, nil
	}
	o.unwritten = o.err != nil && apiserver.RefusesWrite(err)
	return o, retry
}

// refused handles a refused change: an object is replaced if only a new one could have the change.
func (r runner) refused(
	ctx context.Context, w writer, i *desired.Object, live *unstructured.Unstructured, takenFrom string, err error,
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
	ctx context.Context, w writer, i *desired.Object, live *unstructured.Unstructured, takenFrom string, refused error,
) (o outcome, retry error) {
	lost, held := desired.Losses(live), ""
	if r.plan.Held != nil {
		var err error
		if held, err = r.plan.Held(i.Key, live.GetUID()); err != nil {
			return outcome{before: live, err: err}, nil //nolint:nilerr // the outcome has it
		}
	}
	if held != "" || !i.MayRecreate(lost) {
		return outcome{before: live, err: immutableField(i, lost, held, refused)}, nil
	}
	if lost != "" {
		lost = r.countLost(ctx, live, lost)
	}
	if r.dry {
		return outcome{action: desired.ActionRecreate, before: live, why: lost}, nil
	}
	if lost != "" && r.plan.Recreating != nil {
		r.plan.Recreating(i.Key, lost)
	}
	// The inventory has the object, so nothing is lost if this is as far as it gets: the next call finds it missing.
	err := objects.Delete(ctx, w.objects, live, true)
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

// changesNothing reports whether a write would change nothing, apart from the fields changed again by
// patchAfterDeployment. After a failed dry run, it might.
func changesNothing(ctx context.Context, w writer, i *desired.Object, live *unstructured.Unstructured) bool {
	if i.Strategy == managedresource.UpdateStrategyApply && managedfields.WrittenOtherwise(live) {
		return false
	}
	written, _, _, err := w.dry().changeRetaining(ctx, i, live)
	return err == nil && objects.Same(i.Finally(written), i.Finally(live)) && len(sharedFields(i, live, written)) == 0
}

// notServed handles a resource unexpectedly unknown to the API server. Right after a CustomResourceDefinition was
// established this passes; otherwise the client's knowledge of kinds is outdated.
func (r runner) notServed(i *desired.Object, err error) outcome {
	r.client.Forget()
	if i.DefinedHere {
		return outcome{action: desired.ActionWait, why: fmt.Sprintf("the API server to serve the kind of %s", i.Key)}
	}
	return outcome{err: err}
}

// countLost adds the number of a definition's resources to losses, if the API server returns it.
func (r runner) countLost(ctx context.Context, live *unstructured.Unstructured, lost string) string {
	kinds := objects.Defined(live)
	if len(kinds) == 0 {
		return lost
	}
	list, err := r.client.Metadata(kinds[0].Mapping, "").List(ctx, metav1.ListOptions{Limit: objects.PageSize})
	if err != nil {
		return lost // the count is only for the message
	}
	count := int64(len(list.Items))
	if more := list.GetRemainingItemCount(); more != nil {
		count += *more
	}
	return fmt.Sprintf("%s (%d now)", lost, count)
}
