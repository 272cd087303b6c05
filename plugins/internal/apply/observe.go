package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Observed is an object of a plan as the target has it.
type Observed struct {
	*Item
	// Live is the object; nil if it does not exist, or is of a kind that the target does not serve.
	Live *unstructured.Unstructured
	// Done says that the object is done and gone, see Plan. Then Live is nil, and there is no drift.
	Done bool
	// Memo is for the ledger. As long as there is drift it is the one that the ledger has, so that the drift is found again until it is
	// repaired.
	Memo string
	// Drift is how the object differs from what it was when the ledger got its memo; nil if it does not, and if there is no memo, or one of
	// another manifest.
	Drift *Drift
}

// Observe reads all objects of a plan and changes none: it is for objects that somebody else writes, such as Helm. Where there are more than
// a few of a kind in a namespace, they are read with a list of what has the labels of the selector; an object without them is read by
// itself.
//
// The ledger gets a memo of each object that is seen for the first time, or for the first time with its manifest, on trust: it has to be
// called when the objects were just written. Before they are written again their memos are to be struck off the ledger. In between, an object
// that is missing or in which a field differs that the manifest names has drifted. One that only somebody spells differently has not: a dry
// run of a patch with the manifest, which costs a request for each object that differs, tells which fields a write would change. In lists
// whose elements have names, as far as the API server knows of them, elements that others have added do not count, as Helm leaves them.
//
// The error holds those of all objects that cannot be read; what is returned beside it are the others.
func Observe(
	ctx context.Context, client *target.Client, plan *Plan, recorded Recorded, selector labels.Set,
) ([]Observed, error) {
	items := plan.Items()
	o := observer{
		client:   client,
		plan:     plan,
		recorded: recorded,
		known:    listAhead(ctx, client, items, func(*Item) string { return selector.String() }),
	}
	type result struct {
		observed Observed
		err      error
	}
	var all []Observed
	var errs []error
	for i, r := range each(items, func(i *Item) result {
		observed, err := o.look(ctx, i)
		return result{observed, err}
	}) {
		if r.err != nil {
			errs = append(errs, about("read", items[i].Path, items[i].Key, target.Explain(client.Host, r.err)))
			continue
		}
		all = append(all, r.observed)
	}
	for _, u := range plan.unknown {
		all = append(all, o.unserved(u.Item))
	}
	return all, target.Collect(errs)
}

type observer struct {
	client   *target.Client
	plan     *Plan
	recorded Recorded
	known    *ahead
}

func (o observer) look(ctx context.Context, i *Item) (Observed, error) {
	live, err := o.read(ctx, i)
	if err != nil {
		return Observed{}, err
	}
	entry, _ := o.recorded(i.Key)
	switch {
	case o.plan.isDone(i, entry, live):
		return Observed{Item: i, Done: true}, nil
	case live == nil:
		return gone(i, entry), nil
	case i.Stale(entry.Applied):
		return Observed{Item: i, Live: live, Memo: memo(i, live)}, nil
	case fits(entry.Applied, i, live):
		return Observed{Item: i, Live: live, Memo: entry.Applied}, nil
	}
	fields, err := o.deviations(ctx, i, live)
	switch {
	case err != nil:
		return Observed{}, err
	case len(fields) == 0:
		return Observed{Item: i, Live: live, Memo: memo(i, live)}, nil
	default:
		return Observed{Item: i, Live: live, Memo: entry.Applied, Drift: &Drift{Key: i.Key, Fields: fields}}, nil
	}
}

// read returns the object; nil if there is none.
func (o observer) read(ctx context.Context, i *Item) (*unstructured.Unstructured, error) {
	if live := o.known.take(i.Key); live != nil {
		return live, nil
	}
	live, err := newWriter(o.client, i).objects.Get(ctx, i.Key.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return live, err
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		// It is the kind that was not found.
		o.client.Forget()
	}
	return nil, nil //nolint:nilnil // see above
}

// gone is an object that does not exist.
func gone(i *Item, entry managedresource.ManagedResourceStatus) Observed {
	observed := Observed{Item: i, Drift: missing(i, entry)}
	if observed.Drift != nil {
		observed.Memo = entry.Applied
	}
	return observed
}

// unserved is an object of a kind that the target does not serve, and so does not exist. Nobody can tell whether the kind has namespaces,
// but the ledger may know under which name there was an object.
func (o observer) unserved(unknown *Item) Observed {
	for _, namespaced := range []bool{true, false} {
		i := newItem(unknown.Manifest, target.Mapping{Namespaced: namespaced}, false, unknown.owner)
		if entry, ok := o.recorded(i.Key); ok {
			observed := gone(i, entry)
			observed.Done = o.plan.isDone(i, entry, nil)
			return observed
		}
	}
	return Observed{Item: unknown}
}

// deviations returns the paths of the fields that would change if the manifest were written over the object, as in Drift.
func (o observer) deviations(ctx context.Context, i *Item, live *unstructured.Unstructured) ([]string, error) {
	meant, err := newWriter(o.client, i).dry().overwrite(ctx, i, live)
	var answer apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &answer) && !apierrors.IsUnauthorized(err):
		// These credentials may only read, or a webhook refuses dry runs: then a field that is spelt differently counts, too.
		meant = i.Desired
	default:
		return nil, err
	}
	fields := differences(named(i.Desired, live), named(i.Desired, meant), "")
	slices.Sort(fields)
	return fields[:min(len(fields), mostFields)], nil
}

// overwrite sets the fields of an object that the manifest names, and leaves all others as they are. A kind that the API server has no types
// for has no lists whose elements it can tell apart.
func (w writer) overwrite(ctx context.Context, i *Item, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch := namedIn(i.Desired.DeepCopy())
	if err := unstructured.SetNestedField(patch, string(live.GetUID()), "metadata", "uid"); err != nil {
		return nil, fmt.Errorf("make the patch: %w", err)
	}
	document, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write the patch as JSON: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, DryRun: w.dryRun}
	written, err := w.objects.Patch(ctx, i.Key.Name, types.StrategicMergePatchType, document, options)
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnsupportedMediaType {
		written, err = w.objects.Patch(ctx, i.Key.Name, types.MergePatchType, document, options)
	}
	return written, withoutValues(i.Key, err)
}
