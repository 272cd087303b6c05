package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Notes on changes.
const (
	noteNoKind      = "the kind is not served yet: the state after is the manifest, without the defaults of the API server"
	noteNoNamespace = "the namespace does not exist yet: the state after is the manifest, without the defaults of the API server"
	noteRecreate    = "it cannot be changed as it is and is deleted first: the state after is the manifest, without the defaults of the API server"
	noteDeleted     = "it is being deleted and is created anew when it is gone: the state after is the manifest, without the defaults of the API server"
	noteFields      = "it was written before without server-side apply: fields that are no longer in the manifest are removed, too, and fields of others may conflict"
)

// Diff tells what Run and Patch would change, by dry runs of the same requests; nothing is changed on the target. What would stay as it is,
// is not in it, and neither is what another deployer would do. An object over which the job would fail is a change with the action fail. The
// error says that the target cannot be asked.
func Diff(ctx context.Context, client *target.Client, plan *Plan, recorded Recorded) ([]sdk.Change, error) {
	d := differ{client: client, recorded: recorded, namespaces: plan.namespaces()}
	var changes []sdk.Change
	var errs []error
	for _, f := range each(plan.Items(), func(i *Item) foreseen { return d.foresee(ctx, i) }) {
		switch {
		case f.err != nil:
			errs = append(errs, about("compare", f.item.Path, f.item.Key, target.Explain(client.Host, f.err)))
		case f.action != "":
			changes = append(changes, f.change())
		}
	}
	for _, u := range plan.unknown {
		f := foreseen{item: u.Item, action: sdk.ActionFail, notes: []string{u.problem().Error()}}
		changes = append(changes, f.change())
	}
	return changes, target.Collect(errs)
}

// foreseen is what a job would do to one object. Without an action that is nothing.
type foreseen struct {
	item          *Item
	action        sdk.Action
	before, after *unstructured.Unstructured
	notes         []string
	// outdated says that the action is fail because the object has changed meanwhile.
	outdated bool
	// err says that the target cannot be asked.
	err error
}

func (f foreseen) change() sdk.Change {
	return sdk.Change{
		Object: f.item.Key.String(),
		Action: f.action,
		Before: document(f.before),
		After:  document(f.after),
		Note:   strings.Join(f.notes, "; "),
	}
}

// document returns the content of an object as JSON; nil for nil.
func document(o *unstructured.Unstructured) json.RawMessage {
	if o == nil {
		return nil
	}
	raw, err := json.Marshal(content(o))
	if err != nil {
		// Decoded JSON can always be marshalled.
		return nil
	}
	return raw
}

// namespaces returns the names of the namespaces that are in the plan to be applied.
func (p *Plan) namespaces() map[string]bool {
	names := map[string]bool{}
	for _, i := range p.Items() {
		if i.Key.Group == "" && i.Key.Kind == "Namespace" {
			names[i.Key.Name] = true
		}
	}
	return names
}

// differ foresees what a runner would do.
type differ struct {
	client   *target.Client
	recorded Recorded
	// namespaces are the names of those that the plan creates.
	namespaces map[string]bool
}

// foresee looks again when the object has changed between two requests.
func (d differ) foresee(ctx context.Context, i *Item) foreseen {
	var f foreseen
	for range maxSteps {
		if f = d.look(ctx, i); !f.outdated {
			break
		}
	}
	return f
}

func (d differ) look(ctx context.Context, i *Item) foreseen {
	w := newWriter(d.client, i).dry()
	entry, _ := d.recorded(i.Key)
	live, err := w.get(ctx, i)
	if err != nil {
		return d.failure(i, nil, err)
	}
	decided := decide(i, entry, live)
	switch decided.verdict {
	case skip:
		return foreseen{item: i}
	case create:
		return d.creation(ctx, w, i)
	case wait:
		return foreseen{item: i, action: sdk.ActionRecreate, before: live, after: i.finally(initial(i)), notes: []string{noteDeleted}}
	case leave:
		return d.patch(ctx, w, Applied{Item: i, Live: live, Memo: decided.memo})
	default:
		return d.update(ctx, w, i, live)
	}
}

func (d differ) creation(ctx context.Context, w writer, i *Item) foreseen {
	created, err := w.create(ctx, i)
	f := foreseen{item: i, action: sdk.ActionCreate}
	switch {
	case err == nil:
		f.after = i.finally(created)
	case isNamespaceMissing(err) && d.namespaces[i.Key.Namespace]:
		f.after, f.notes = i.finally(initial(i)), []string{noteNoNamespace}
	case apierrors.IsNotFound(err) && !isNamespaceMissing(err) && i.definedHere:
		f.after, f.notes = i.finally(initial(i)), []string{noteNoKind}
	default:
		f = d.failure(i, nil, refusedCreation(d.client.Host, i, err))
		f.outdated = apierrors.IsAlreadyExists(err)
	}
	return f
}

func (d differ) update(ctx context.Context, w writer, i *Item, live *unstructured.Unstructured) foreseen {
	written, err := w.change(ctx, i, live)
	switch {
	case err == nil:
		f := difference(i, live, i.finally(written))
		if i.relation(live) == owner.Others {
			f.notes = append(f.notes, "it is taken over from "+i.ownerOf(live))
		}
		if i.Strategy == managedresource.UpdateStrategyApply && writtenOtherwise(live) {
			// A dry run cannot show which fields go, see noteFields.
			f.action, f.before, f.after = sdk.ActionUpdate, live, i.finally(written)
			f.notes = append(f.notes, noteFields)
		}
		return f
	case !isOutdated(err) && apierrors.IsInvalid(err) && isImmutable(ctx, w, i):
		if !i.mayRecreate() {
			return d.failure(i, live, immutableField(i, err))
		}
		return foreseen{item: i, action: sdk.ActionRecreate, before: live, after: i.finally(initial(i)), notes: []string{noteRecreate}}
	default:
		f := d.failure(i, live, refusedChange(i, err))
		f.outdated = isOutdated(err)
		return f
	}
}

// patch is for an object that has nothing else to change.
func (d differ) patch(ctx context.Context, w writer, a Applied) foreseen {
	if !a.lacksPatch() {
		return foreseen{item: a.Item}
	}
	patched, err := w.patch(ctx, a.Item, a.PatchAfterDeployment)
	if err != nil {
		return d.failure(a.Item, a.Live, err)
	}
	return difference(a.Item, a.Live, patched)
}

// difference is the change of an object that exists; nothing if it makes no difference.
func difference(i *Item, before, after *unstructured.Unstructured) foreseen {
	if same(before, after) {
		return foreseen{item: i}
	}
	return foreseen{item: i, action: sdk.ActionUpdate, before: before, after: after}
}

// failure tells an error about an object from one about the target, over which all others would fail as well. A webhook may refuse a dry run
// for being one, so the note says what was tried.
func (d differ) failure(i *Item, live *unstructured.Unstructured, err error) foreseen {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsUnauthorized(err) {
		return foreseen{item: i, err: err}
	}
	return foreseen{item: i, action: sdk.ActionFail, before: live, notes: []string{
		fmt.Sprintf("a dry run fails: %v", target.Explain(d.client.Host, err)),
	}}
}
