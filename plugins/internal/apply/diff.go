package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

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

// Diff tells what Run and Patch would change, by dry runs of the same requests; nothing is changed on the target. What
// would stay as it is, is not in it, and neither is what another deployer would do. An object over which the job would
// fail is a change with the action fail. The error says that the target cannot be asked.
func Diff(ctx context.Context, client *target.Client, plan *Plan, recorded Recorded) ([]sdk.Change, error) {
	d := differ{client: client, namespaces: plan.namespaces()}
	r := runner{client: client, plan: plan, recorded: recorded, dry: true}
	type result struct {
		change *sdk.Change
		err    error
	}
	var changes []sdk.Change
	var errs []error
	items := plan.Items()
	for i, found := range Each(items, func(i *Item) result {
		change, err := d.foresee(ctx, i, r.apply(ctx, i, nil))
		return result{change, err}
	}) {
		if found.err != nil {
			errs = append(errs, about("compare", items[i], target.Explain(client.Host, found.err)))
		}
		if found.change != nil {
			changes = append(changes, *found.change)
		}
	}
	for _, u := range plan.unknown {
		changes = append(changes, *newChange(u.Item, sdk.ActionFail, nil, nil, u.problem().Error()))
	}
	return changes, target.Collect(errs)
}

// differ tells what comes of dry runs.
type differ struct {
	client *target.Client
	// namespaces are the names of those that the plan creates.
	namespaces map[string]bool
}

// foresee returns the change that the dry run of an object shows; nil for none. The error says that the target cannot
// be asked.
func (d differ) foresee(ctx context.Context, i *Item, o outcome) (*sdk.Change, error) {
	written := func() *unstructured.Unstructured { return i.finally(initial(i)) }
	switch {
	case isNamespaceMissing(o.err) && d.namespaces[i.Key.Namespace]:
		return newChange(i, sdk.ActionCreate, nil, written(), noteNoNamespace), nil
	case o.err != nil:
		return d.failure(i, o.before, o.err)
	}
	switch o.verdict {
	case create:
		return newChange(i, sdk.ActionCreate, nil, i.finally(o.live), ""), nil
	case recreate:
		return newChange(i, sdk.ActionRecreate, o.before, written(), noteRecreate), nil
	case wait:
		if o.before == nil {
			return newChange(i, sdk.ActionCreate, nil, written(), noteNoKind), nil
		}
		return newChange(i, sdk.ActionRecreate, o.before, written(), noteDeleted), nil
	case write:
		return difference(i, o), nil
	case leave:
		return d.patch(ctx, Applied{Item: i, Live: o.live, LastAppliedHash: o.hash})
	default:
		return nil, nil //nolint:nilnil // see above
	}
}

// difference returns the change that a write makes.
func difference(i *Item, o outcome) *sdk.Change {
	var notes []string
	if o.takenFrom != "" {
		notes = append(notes, "it is taken over from "+i.ownerOf(o.before))
	}
	after := i.finally(o.live)
	// A dry run cannot show which fields go, see noteFields.
	otherwise := i.Strategy == managedresource.UpdateStrategyApply && writtenOtherwise(o.before)
	if otherwise {
		notes = append(notes, noteFields)
	}
	if !otherwise && same(o.before, after) {
		return nil
	}
	return newChange(i, sdk.ActionUpdate, o.before, after, strings.Join(notes, "; "))
}

// patch returns what patchAfterDeployment changes in an object that has nothing else to change.
func (d differ) patch(ctx context.Context, a Applied) (*sdk.Change, error) {
	if !a.lacksPatch() {
		return nil, nil //nolint:nilnil // see foresee
	}
	patched, err := newWriter(d.client, a.Item, true).patch(ctx, a.Item, a.PatchAfterDeployment)
	if err != nil {
		return d.failure(a.Item, a.Live, err)
	}
	if same(a.Live, patched) {
		return nil, nil //nolint:nilnil // see foresee
	}
	return newChange(a.Item, sdk.ActionUpdate, a.Live, patched, ""), nil
}

// failure tells an error about an object from one about the target, over which all others would fail as well. A webhook
// may refuse a dry run for being one, so the note says what was tried.
func (d differ) failure(i *Item, live *unstructured.Unstructured, err error) (*sdk.Change, error) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsUnauthorized(err) {
		return nil, err
	}
	note := fmt.Sprintf("a dry run fails: %v", target.Explain(d.client.Host, err))
	return newChange(i, sdk.ActionFail, live, nil, note), nil
}

func newChange(i *Item, action sdk.Action, before, after *unstructured.Unstructured, note string) *sdk.Change {
	return &sdk.Change{
		Object: i.Key.String(), Action: action, Before: Document(before), After: Document(after), Note: note,
	}
}

// Document returns an object as JSON for people, without what the API server sets in its metadata; nil for nil.
func Document(o *unstructured.Unstructured) json.RawMessage {
	if o == nil {
		return nil
	}
	document, err := json.Marshal(content(o))
	if err != nil {
		return nil // decoded JSON can always be marshalled
	}
	return document
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
