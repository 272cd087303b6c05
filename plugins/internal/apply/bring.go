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

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// maxSteps bounds the rounds for one object when others change, create or delete it at the same time.
const maxSteps = 8

// runner carries decisions out.
type runner struct {
	client   *target.Client
	plan     *Plan
	recorded Recorded
}

// bring brings one object to its manifest. It goes from what is believed about the object to what is true of it: each
// round ends the matter or corrects the belief, which somebody else may have made wrong in the meantime.
func (r runner) bring(ctx context.Context, i *Item, known *ahead) outcome {
	w := newWriter(r.client, i)
	entry, noted := r.recorded(i.Key)
	// An object that was only noted, without a uid, was most likely never created: the job had to wait for a kind
	// before.
	believed := entry.Resource.UID != "" || entry.Applied != "" || i.Strategy == managedresource.UpdateStrategyApply || i.Policy == managedresource.PolicyFallback
	var lastErr error
	var takenFrom string
	for range maxSteps {
		var live *unstructured.Unstructured
		if believed {
			var err error
			if live, err = w.read(ctx, i, known); err != nil {
				return outcome{err: err}
			}
		}
		o, again := r.carryOut(ctx, w, i, entry, live)
		takenFrom = cmp.Or(o.takenFrom, takenFrom)
		if again == nil && noted && !believed && apierrors.IsForbidden(o.err) {
			again = o.err // as a quota forbids to create even what exists
		}
		if again == nil {
			if o.live != nil {
				o.takenFrom = takenFrom
			}
			return o
		}
		if errors.Is(again, errReplaced) {
			entry.DoneIn = "" // what was done is not what was deleted
		}
		believed, lastErr = true, again
	}
	return outcome{err: fmt.Errorf("others keep changing it at the same time: %w", lastErr)}
}

// carryOut does what is decided about an object. The second result says what was wrong about the belief that it is as
// live says; then the outcome has nothing but from whom an object was taken that was deleted to be created anew.
func (r runner) carryOut(
	ctx context.Context, w writer, i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (o outcome, again error) {
	if r.plan.isDone(i, entry, live) {
		return outcome{done: true}, nil
	}
	if r.plan.isFailing(i, entry, live) {
		return outcome{live: live, memo: entry.Applied}, nil
	}
	d := decide(i, entry, live)
	switch d.verdict {
	case skip:
		return outcome{skipped: d.why}, nil
	case wait:
		return outcome{waiting: d.why}, nil
	case leave:
		// What patchAfterDeployment repairs is drift, too.
		return outcome{live: live, memo: d.memo, drift: repaired(i, entry, live, live)}, nil
	case create:
		return r.create(ctx, w, i, entry)
	case compare:
		if changesNothing(ctx, w, i, live) {
			return outcome{live: live, memo: memo(i, live)}, nil
		}
	default:
	}
	return r.change(ctx, w, i, entry, live)
}

func (r runner) create(ctx context.Context, w writer, i *Item, entry managedresource.ManagedResourceStatus) (o outcome, again error) {
	created, err := w.create(ctx, i)
	switch {
	case err == nil:
		return outcome{live: created, memo: memo(i, created), drift: missing(i, entry)}, nil
	case apierrors.IsAlreadyExists(err):
		return outcome{}, err
	case apierrors.IsNotFound(err) && !isNamespaceMissing(err):
		return r.notServed(i, err), nil
	default:
		return outcome{err: refusedCreation(r.client.Host, i, err)}, nil
	}
}

func (r runner) change(
	ctx context.Context, w writer, i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) (o outcome, again error) {
	takenFrom := ""
	if i.relation(live) == owner.Others {
		takenFrom = owner.Of(live, i.owner.UpstreamLabel)
	}
	written, err := w.change(ctx, i, live)
	if err == nil {
		o = outcome{live: written, memo: memo(i, written), drift: repaired(i, entry, live, written), takenFrom: takenFrom}
		if i.Strategy == managedresource.UpdateStrategyPatch && !isMeant(i, mergePatch(content(live), content(wanted(i, live))), live, written) {
			o.memo = ""
		}
		return o, nil
	}
	if !isOutdated(err) && apierrors.IsInvalid(err) && isImmutable(ctx, w, i) {
		if !i.mayRecreate() {
			return outcome{err: immutableField(i, err)}, nil
		}
		// The ledger has the object, so that nothing is lost if this is as far as it gets: the next call finds it
		// missing.
		err = w.remove(ctx, live)
		if err == nil {
			return outcome{takenFrom: takenFrom}, errReplaced
		}
	}
	if isOutdated(err) {
		return outcome{}, err
	}
	return outcome{err: refusedChange(i, err)}, nil
}

// errReplaced is why an object that was deleted is looked at again.
var errReplaced = errors.New("it was deleted to be created anew, but exists again")

// isOutdated tells whether a write was refused because the object has changed, is gone, or is another one by now.
func isOutdated(err error) bool {
	anotherOne := func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }
	return apierrors.IsNotFound(err) || (apierrors.IsConflict(err) && !isFieldConflict(err)) || slices.ContainsFunc(causes(err), anotherOne)
}

// changesNothing tells whether a write would change nothing, apart from what patchAfterDeployment changes again. If
// even a dry run fails, it might.
func changesNothing(ctx context.Context, w writer, i *Item, live *unstructured.Unstructured) bool {
	if i.Strategy == managedresource.UpdateStrategyApply && writtenOtherwise(live) {
		return false
	}
	written, err := w.dry().change(ctx, i, live)
	return err == nil && same(i.finally(written), i.finally(live))
}

// notServed deals with a resource that the API server does not know although it should. Just after a
// CustomResourceDefinition was established that passes; otherwise what the client knows of kinds is outdated.
func (r runner) notServed(i *Item, err error) outcome {
	r.client.Forget()
	if i.definedHere {
		return outcome{waiting: fmt.Sprintf("the API server to serve the kind of %s", i.Key)}
	}
	return outcome{err: err}
}
