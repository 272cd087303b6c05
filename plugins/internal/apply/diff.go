package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// maxWarnings bounds the parts of a note.
const maxWarnings = 10

// Notes on changes.
const (
	noteNoKind      = "the kind is not served yet" + noteUndefaulted
	noteNoNamespace = "the namespace does not exist yet" + noteUndefaulted
	noteRecreate    = "it cannot be changed as it is and is deleted first" + noteUndefaulted
	noteDeleted     = "it is being deleted and is created anew when it is gone" + noteUndefaulted
	noteUndefaulted = ": the state after is the manifest, without the defaults of the API server"
	noteFields      = "it was written before without server-side apply: fields that are no longer in the manifest " +
		"are removed, too, and fields of others may conflict"
)

// Diff returns the changes Run and Patch would make, by dry runs of the same requests; nothing is changed on the
// target. Unchanged objects are not in it, and neither are the changes of other deployers. An object that would fail
// the job is a change with the action fail. owned are the objects with owners after the changes. The error is about
// the target as a whole.
func Diff(
	ctx context.Context, client *target.Client, plan *Plan, recorded Recorded,
) (changes []sdk.Change, owned []objects.Owned, err error) {
	r := newRunner(client, plan, recorded)
	r.dry = true
	type result struct {
		change *sdk.Change
		before *unstructured.Unstructured
		after  *unstructured.Unstructured
		err    error
	}
	var errs []error
	items := plan.Items()
	for i, found := range objects.Each(items, func(i *desired.Object) result {
		o := r.warned(ctx, i, nil)
		change, err := r.changeOf(ctx, cmp.Or(o.object, i), o)
		if change != nil {
			change.Note = withWarnings(change.Note, o.warnings)
		}
		return result{change, o.before, cmp.Or(o.live, i.Desired), err}
	}) {
		if found.err != nil {
			errs = append(errs, items[i].About("compare", target.Explain(client.Host, found.err)))
		}
		if found.change != nil {
			changes = append(changes, *found.change)
			if found.before != nil && found.before.GetLabels()[owner.Label] == "" && plan.TakingOver != nil {
				plan.TakingOver(Applied{Object: items[i], Live: found.before})
			}
		}
		if owners := found.after.GetOwnerReferences(); len(owners) > 0 {
			owned = append(owned, objects.Owned{Key: items[i].Key, Owners: owners})
		}
	}
	for _, i := range plan.unknown {
		changes = append(changes, *newChange(i, sdk.ActionFail, nil, nil, plan.unknownKind(i).Error()))
	}
	return changes, owned, target.Collect(errs)
}

// changeOf returns the change shown by the dry run of an object; nil for none. The error is about the target as a
// whole.
func (r runner) changeOf(ctx context.Context, i *desired.Object, o outcome) (*sdk.Change, error) {
	written := func() *unstructured.Unstructured { return i.Finally(desired.Initial(i)) }
	switch {
	case o.action == desired.ActionRefuse:
		return newChange(i, sdk.ActionFail, o.before, nil, o.err.Error()), nil
	case isNamespaceMissing(o.err) && r.plan.creates(i.Key.Namespace):
		return newChange(i, sdk.ActionCreate, nil, written(), noteNoNamespace), nil
	case o.err != nil:
		return r.failure(i, o.before, o.err)
	}
	switch o.action {
	case desired.ActionCreate:
		return newChange(i, sdk.ActionCreate, nil, i.Finally(o.live), ""), nil
	case desired.ActionRecreate:
		note := noteRecreate
		if o.why != "" {
			note = "with it go " + o.why + "; " + note
		}
		return newChange(i, sdk.ActionRecreate, o.before, written(), note), nil
	case desired.ActionWait:
		if o.before == nil {
			return newChange(i, sdk.ActionCreate, nil, written(), noteNoKind), nil
		}
		return newChange(i, sdk.ActionRecreate, o.before, written(), noteDeleted), nil
	case desired.ActionWrite:
		return difference(i, o), nil
	case desired.ActionLeave, desired.ActionSettled:
		if o.drift != nil && o.drift.Refused != "" {
			return newChange(i, sdk.ActionKeep, o.live, nil, o.drift.String()), nil
		}
		return r.patch(ctx, Applied{Object: i, Live: o.live, LastAppliedHash: o.hash})
	default:
		return nil, nil //nolint:nilnil // see above
	}
}

func withWarnings(note string, warnings []Warning) string {
	var parts []string
	if note != "" {
		parts = append(parts, note)
	}
	for _, w := range warnings {
		parts = append(parts, "the API server warns: "+w.Text)
	}
	return object.Enumerate(parts, "; ", maxWarnings)
}

// difference returns the change made by a write; nil for none.
func difference(i *desired.Object, o outcome) *sdk.Change {
	var notes []string
	if o.takenFrom != "" {
		notes = append(notes, "it is taken over from "+o.takenFrom)
	}
	if o.adopted {
		notes = append(notes, "it exists already, belongs to no deploy item, and is taken over")
	}
	after := i.Finally(o.live)
	// A dry run cannot show the removed fields, see noteFields.
	otherwise := i.Strategy == managedresource.UpdateStrategyApply && managedfields.WrittenOtherwise(o.before)
	if otherwise {
		notes = append(notes, noteFields)
	}
	if len(o.sharers) > 0 {
		what := "stay"
		if i.Force {
			what = "are removed, too"
		}
		notes = append(notes, fmt.Sprintf("fields that the manifest has no more and other managers have set %s: %s",
			what, object.Enumerate(o.sharers, ", ", maxWarnings)))
	}
	if !otherwise && len(o.sharers) == 0 && objects.Same(o.before, after) {
		return nil
	}
	return newChange(i, sdk.ActionUpdate, o.before, after, strings.Join(notes, "; "))
}

// patch returns the change by patchAfterDeployment to an object that has no other change; nil for none.
func (r runner) patch(ctx context.Context, a Applied) (*sdk.Change, error) {
	after, err := patchOne(ctx, r.client, a, true)
	if err != nil {
		return r.failure(a.Object, a.Live, err)
	}
	if objects.Same(a.Live, after.Live) {
		return nil, nil //nolint:nilnil // see changeOf
	}
	return newChange(a.Object, sdk.ActionUpdate, a.Live, after.Live, ""), nil
}

// failure returns the change for an error about an object. An error about the target is returned as it is: all other
// objects would fail over it as well.
func (r runner) failure(i *desired.Object, live *unstructured.Unstructured, err error) (*sdk.Change, error) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsUnauthorized(err) {
		return nil, err
	}
	// A webhook may refuse a dry run for being one.
	note := fmt.Sprintf("a dry run fails: %v", target.Explain(r.client.Host, err))
	return newChange(i, sdk.ActionFail, live, nil, note), nil
}

func newChange(
	i *desired.Object, action sdk.Action, before, after *unstructured.Unstructured, note string,
) *sdk.Change {
	return &sdk.Change{
		Object: i.Key.String(), Action: action, Before: objects.Document(before), After: objects.Document(after), Note: note,
	}
}

// creates reports whether the plan has a namespace.
func (p *Plan) creates(namespace string) bool {
	return slices.ContainsFunc(p.Items(), func(i *desired.Object) bool {
		return i.Key == object.Key{Kind: "Namespace", Name: namespace}
	})
}
