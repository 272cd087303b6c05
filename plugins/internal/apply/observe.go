package apply

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// Observe reads all objects of a plan and changes none: it is for objects written by another client, such as Helm.
// Where there are more than a few of a kind in a namespace, they are read with a list by the labels of the selector;
// an object without them is read by itself. Existing objects are Applied, as they are; absent ones, also those of
// kinds not served by the target, are Missing.
//
// The inventory gets a hash of each object seen for the first time, or for the first time with its manifest, on
// trust: Observe has to be called right after the write of the objects. Before their next write their hashes are to
// be removed from the inventory. In between, a missing object, or one with another value in a field of the manifest,
// has drifted. It keeps its hash, so that the drift is found again until it is repaired. Another spelling is no
// drift: a dry run of a patch with the manifest, at the cost of a request for each differing object, shows the fields
// a write would change. In lists with named elements, as far as the API server knows of them, elements added by
// others do not count, as Helm leaves them.
//
// The error joins the errors of all unreadable objects; the result has the others.
func Observe(
	ctx context.Context, client *target.Client, plan *Plan, recorded Recorded, selector labels.Set,
) (Result, error) {
	r := newRunner(client, plan, recorded)
	items := plan.Items()
	expected := make([]objects.Wanted, 0, len(items))
	for _, i := range items {
		expected = append(expected, objects.Wanted{Key: i.Key, Mapping: i.Mapping})
	}
	listed := objects.List(ctx, objects.Whole(client), expected, selector.String())
	var result Result
	var errs []error
	for i, o := range objects.Each(items, func(i *desired.Object) outcome { return r.observe(ctx, i, listed) }) {
		if o.err != nil {
			errs = append(errs, about("read", items[i], target.Explain(client.Host, o.err)))
			continue
		}
		result.add(items[i], o)
	}
	for _, i := range plan.unknown {
		result.add(r.unserved(i))
	}
	return result, target.Collect(errs)
}

func (r runner) observe(ctx context.Context, i *desired.Object, listed *objects.Listed) outcome {
	live := listed.Take(i.Key)
	if live == nil {
		var err error
		live, err = newWriter(r.client, i, false).objects.Get(ctx, i.Key.Name, metav1.GetOptions{})
		switch {
		case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err):
			r.client.Forget() // not the object but its kind was not found
			live = nil
		case apierrors.IsNotFound(err):
			live = nil
		case err != nil:
			return outcome{err: err}
		}
	}
	entry, _ := r.recorded(i.Key)
	if live != nil && r.plan.Foreign != nil {
		if why := r.plan.Foreign(entry, live); why != "" {
			return outcome{action: desired.ActionSkip, why: why}
		}
	}
	switch {
	case r.plan.IsDone(i, entry, live):
		return outcome{action: desired.ActionDone}
	case live == nil && r.plan.IsSettled(i):
		return outcome{err: desired.Vanished(i)}
	case live == nil:
		return outcome{drift: desired.Missing(i, entry)}
	case r.plan.IsSettled(i):
		return outcome{action: desired.ActionSettled, live: live, hash: entry.Applied}
	}
	i = i.Ignoring(ignore.Bundles(i.Desired.Object, live.Object)...)
	switch {
	case i.Stale(entry.Applied):
		return outcome{action: desired.ActionLeave, live: live, hash: i.Hash(live)}
	case i.Fits(entry.Applied, live):
		return outcome{action: desired.ActionLeave, live: live, hash: entry.Applied}
	}
	i, err := r.withScaled(ctx, i, live)
	if err != nil {
		return outcome{err: err}
	}
	if i.Fits(entry.Applied, live) {
		return outcome{action: desired.ActionLeave, live: live, hash: entry.Applied}
	}
	drift, err := r.deviations(ctx, i, live)
	switch {
	case apierrors.IsNotFound(err): // it has gone since it was read
		return outcome{drift: desired.Missing(i, entry)}
	case err != nil:
		return outcome{err: err}
	case drift == nil:
		return outcome{action: desired.ActionLeave, live: live, hash: i.Hash(live)}
	default:
		return outcome{action: desired.ActionLeave, live: live, hash: entry.Applied, drift: drift}
	}
}

// unserved returns the outcome for an object of a kind not served by the target: it does not exist. Whether the kind
// has namespaces is unknown, but the inventory may have the object under one of the two keys.
func (r runner) unserved(unknown *desired.Object) (*desired.Object, outcome) {
	for _, namespaced := range []bool{true, false} {
		i := desired.New(unknown.Manifest, target.Mapping{Namespaced: namespaced}, false, unknown.Owner)
		entry, ok := r.recorded(i.Key)
		switch {
		case !ok:
		case r.plan.IsDone(i, entry, nil):
			return i, outcome{action: desired.ActionDone}
		default:
			return i, outcome{drift: desired.Missing(i, entry)}
		}
	}
	return unknown, outcome{}
}

// deviations returns the changes by a write of the manifest over the object; nil for none.
func (r runner) deviations(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (*desired.Drift, error) {
	meant, err := newWriter(r.client, i, true).overwrite(ctx, i, live)
	switch {
	case err == nil:
	case target.RefusesDryRuns(err):
		meant = i.Desired // a field with another spelling counts, too
	case target.RefusesWrite(err):
		return desired.NotRepaired(i, live, err), nil
	default:
		return nil, err
	}
	if fields := desired.Deviating(i, live, meant); len(fields) > 0 {
		return &desired.Drift{Key: i.Key, Fields: fields}, nil
	}
	return nil, nil //nolint:nilnil // see above
}

// overwrite sets the manifest's fields of an object, and leaves all others as they are.
func (w writer) overwrite(
	ctx context.Context, i *desired.Object, live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	patch := runtime.DeepCopyJSON(i.Compared())
	if err := unstructured.SetNestedField(patch, string(live.GetUID()), "metadata", "uid"); err != nil {
		return nil, fmt.Errorf("make the patch: %w", err)
	}
	document, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write the patch as JSON: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: owner.FieldManager, DryRun: w.dryRun}
	written, err := w.objects.Patch(ctx, i.Key.Name, types.StrategicMergePatchType, document, options)
	// Without the types of a kind, the API server cannot tell the elements of its lists apart.
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnsupportedMediaType {
		written, err = w.objects.Patch(ctx, i.Key.Name, types.MergePatchType, document, options)
	}
	return written, err
}
