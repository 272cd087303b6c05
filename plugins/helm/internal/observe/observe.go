package observe

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Foreign returns the reason why an existing object is not of the release any more; empty for an object of it.
type Foreign func(e managedresource.ManagedResourceStatus, live metav1.Object) (why string)

// Result has the objects of a plan by their states.
type Result struct {
	// Applied are the existing objects, as they are.
	Applied []apply.Applied
	// Foreign are the existing objects of others.
	Foreign []apply.Skipped
	// Done are the completed objects, now gone.
	Done []*desired.Object
	// Missing are the other nonexistent objects, also those of kinds not served by the target.
	Missing []*desired.Object
	// Drift are the objects changed or deleted by others.
	Drift []desired.Drift
}

// Run reads all objects of a plan and changes none. Where there are more than a few of a kind in a namespace, they are
// read with a list by the labels of the selector; an object without them is read by itself.
//
// The inventory gets a hash of each object seen for the first time, or for the first time with its manifest, on
// trust: Run has to be called right after the write of the objects. Before their next write their hashes are to be
// removed from the inventory. In between, a missing object, or one with another value in a field of the manifest, has
// drifted. It keeps its hash, so that the drift is found again until it is repaired. Another spelling is no drift: a
// dry run of a patch with the manifest, at the cost of a request for each differing object, shows the fields a write
// would change. In lists with named elements, as far as the API server knows of them, elements added by others do not
// count, as Helm leaves them.
//
// The error joins the errors of all unreadable objects; the result has the others.
func Run(
	ctx context.Context, client *target.Client, plan *apply.Plan, recorded apply.Recorded, foreign Foreign,
	selector labels.Set,
) (Result, error) {
	o := observer{
		client: client, plan: plan, recorded: recorded, foreign: foreign,
		autoscalers: apply.NewAutoscalers(client, plan, recorded),
	}
	items := plan.Items()
	expected := make([]objects.Wanted, 0, len(items))
	for _, i := range items {
		expected = append(expected, objects.Wanted{Key: i.Key, Mapping: i.Mapping})
	}
	listed := objects.List(ctx, objects.Whole(client), expected, selector.String())
	var result Result
	var errs []error
	for n, f := range objects.Each(items, func(i *desired.Object) finding { return o.observe(ctx, i, listed) }) {
		if f.err != nil {
			errs = append(errs, items[n].About("read", target.Explain(client.Host, f.err)))
			continue
		}
		result.add(f)
	}
	for _, i := range plan.Unknown() {
		result.add(o.unserved(i))
	}
	return result, target.Collect(errs)
}

// state is the state of an object on the target.
type state int

const (
	// stateFound: it exists.
	stateFound state = iota
	// stateSettled: it exists, and an earlier call of the job has recorded it.
	stateSettled
	// stateForeign: it exists, and belongs to others.
	stateForeign
	// stateDone: it has completed its work and is gone.
	stateDone
	// stateMissing: it does not exist.
	stateMissing
)

// finding is an object in its state.
type finding struct {
	state state
	item  *desired.Object
	// live and hash are of an existing object.
	live *unstructured.Unstructured
	hash string
	// drift is nil for none.
	drift *desired.Drift
	// why is the reason for stateForeign.
	why string
	err error
}

func (r *Result) add(f finding) {
	switch f.state {
	case stateDone:
		r.Done = append(r.Done, f.item)
	case stateForeign:
		r.Foreign = append(r.Foreign, apply.Skipped{Key: f.item.Key, Why: f.why})
	case stateMissing:
		r.Missing = append(r.Missing, f.item)
	case stateFound, stateSettled:
		r.Applied = append(r.Applied, apply.Applied{
			Object: f.item, Live: f.live, LastAppliedHash: f.hash, Settled: f.state == stateSettled,
		})
	}
	if f.drift != nil {
		r.Drift = append(r.Drift, *f.drift)
	}
}

type observer struct {
	client      *target.Client
	plan        *apply.Plan
	recorded    apply.Recorded
	foreign     Foreign
	autoscalers *ignore.Autoscalers
}

func (o observer) observe(ctx context.Context, i *desired.Object, listed *objects.Listed) finding {
	live := listed.Take(i.Key)
	if live == nil {
		var err error
		if live, err = o.read(ctx, i); err != nil {
			return finding{err: err}
		}
	}
	entry, _ := o.recorded(i.Key)
	if live != nil {
		if why := o.foreign(entry, live); why != "" {
			return finding{state: stateForeign, item: i, why: why}
		}
	}
	switch {
	case o.plan.IsDone(i, entry, live):
		return finding{state: stateDone, item: i}
	case live == nil && o.plan.IsSettled(i):
		return finding{err: desired.Vanished(i)}
	case live == nil:
		return finding{state: stateMissing, item: i, drift: desired.Missing(i, entry)}
	case o.plan.IsSettled(i):
		return finding{state: stateSettled, item: i, live: live, hash: entry.Applied}
	}
	return o.compare(ctx, i, entry, live)
}

// read returns the object; nil if there is none.
func (o observer) read(ctx context.Context, i *desired.Object) (*unstructured.Unstructured, error) {
	live, err := o.client.Objects(i.Mapping, i.Key.Namespace).Get(ctx, i.Key.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return live, err
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		o.client.Forget() // not the object but its kind was not found
	}
	return nil, nil //nolint:nilnil // see above
}

// compare compares an existing object with its state after the last write.
func (o observer) compare(
	ctx context.Context, i *desired.Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) finding {
	found := finding{item: i, live: live, hash: entry.Applied}
	i = i.Ignoring(ignore.Bundles(i.Desired.Object, live.Object)...)
	switch {
	case i.Stale(entry.Applied):
		found.hash = i.Hash(live)
		return found
	case i.Fits(entry.Applied, live):
		return found
	}
	i, err := apply.IgnoringScaled(ctx, o.autoscalers, i, live)
	if err != nil {
		return finding{err: err}
	}
	if i.Fits(entry.Applied, live) {
		return found
	}
	drift, err := o.deviations(ctx, i, live)
	switch {
	case apierrors.IsNotFound(err): // it has gone since it was read
		return finding{state: stateMissing, item: found.item, drift: desired.Missing(i, entry)}
	case err != nil:
		return finding{err: err}
	case drift == nil:
		found.hash = i.Hash(live)
	default:
		found.drift = drift
	}
	return found
}

// unserved returns the finding about an object of a kind not served by the target: it does not exist. Whether the kind
// has namespaces is unknown, but the inventory may have the object under one of the two keys.
func (o observer) unserved(unknown *desired.Object) finding {
	for _, namespaced := range []bool{true, false} {
		i := desired.New(unknown.Manifest, target.Mapping{Namespaced: namespaced}, false, unknown.Owner)
		entry, ok := o.recorded(i.Key)
		switch {
		case !ok:
		case o.plan.IsDone(i, entry, nil):
			return finding{state: stateDone, item: i}
		default:
			return finding{state: stateMissing, item: i, drift: desired.Missing(i, entry)}
		}
	}
	return finding{state: stateMissing, item: unknown}
}
