package prune

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// Diff returns the changes the calls of Run would make until completion, in their order. It changes nothing and looks
// no other Targets up. An unreadable object is a change with the action fail; the error is about the target as a
// whole.
//
// Of the unmanaged objects to be deleted, the first few hundred of each group are shown, without their content.
func Diff(ctx context.Context, client *target.Client, d Deletion) ([]sdk.Change, error) {
	if len(d.Entries) == 0 {
		return nil, nil
	}
	work, err := begin(ctx, client, d)
	if err != nil {
		return nil, err
	}
	sorted, err := work.sort(ctx)
	if err != nil {
		return nil, err
	}
	var changes []sdk.Change
	for _, s := range sorted.steps {
		for _, f := range s.failures {
			changes = append(changes, sdk.Change{Object: f.what, Action: sdk.ActionFail, Note: f.err.Error()})
		}
		for _, f := range s.doubts {
			changes = append(changes, sdk.Change{Object: f.what, Action: sdk.ActionDelete, Note: f.err.Error()})
		}
		shown := work.spared()
		for i, change := range objects.Each(s.items, func(it item) *sdk.Change { return it.diff(ctx, work) }) {
			if change != nil {
				changes = append(changes, *change)
				shown[s.items[i].key] = true
			}
		}
		if s.group.all {
			f := &finder{client: client, group: s.group, asOf: d.AsOf, spared: shown, stays: work.stays}
			changes = append(changes, s.diffUnmanaged(ctx, f)...)
		}
	}
	for _, l := range sorted.left {
		changes = append(changes, sdk.Change{Object: l.Key.String(), Action: sdk.ActionKeep, Note: l.Why})
	}
	return changes, nil
}

// diff returns the change of an object; nil if it does not exist, or was just applied under another name.
func (it item) diff(ctx context.Context, d *deletion) *sdk.Change {
	change := &sdk.Change{Object: it.key.String(), Action: sdk.ActionFail}
	preparation, err := preparationOf(it.entry)
	if err != nil {
		change.Note = err.Error()
		return change
	}
	live, err := d.client.Objects(it.mapping, it.key.Namespace).Get(ctx, it.key.Name, metav1.GetOptions{})
	if err != nil && (notServed(err) || ignoreGone(err) == nil) {
		return nil
	}
	if err != nil {
		change.Note = target.Explain(d.client.Host, err).Error()
		return change
	}
	next, why, err := it.decide(ctx, d, live, preparation)
	if err != nil {
		change.Note = target.Explain(d.client.Host, err).Error()
		return change
	}
	switch next {
	case actionForget:
		return nil
	case actionLeave:
		d.stays.add(it.key, it.mapping.Resource)
		change.Action, change.Note = sdk.ActionKeep, why
		return change
	case actionPrepare:
		change.Note = "after it was changed by annotateBeforeDelete and patchBeforeDelete"
	case actionRemoveFinalizers:
		change.Note = "its finalizers are removed, since it is being deleted already: " +
			strings.Join(live.GetFinalizers(), ", ")
	case actionWait:
		change.Note = strings.Join(append(circumstances(live), obstacles(live)...), "; ")
	case actionDelete:
	}
	change.Action, change.Before = sdk.ActionDelete, objects.Document(live)
	return change
}

// diffUnmanaged returns the deletions of unmanaged objects by a group with deleteAllResources.
func (s step) diffUnmanaged(ctx context.Context, f *finder) []sdk.Change {
	const unmanaged = "not managed by this deploy item, but the deletion group has deleteAllResources"
	if s.group.target != "" {
		var changes []sdk.Change
		for _, r := range s.group.resources {
			changes = append(changes, sdk.Change{
				Object: fmt.Sprintf("all selected %s on the Target %s", r.gvk.Kind, s.group.target),
				Action: sdk.ActionDelete,
				Note:   unmanaged,
			})
		}
		return changes
	}
	var changes []sdk.Change
	for page := range f.all(ctx) {
		for i := range page.objects {
			key := page.key(&page.objects[i])
			changes = append(changes, sdk.Change{Object: key.String(), Action: sdk.ActionDelete, Note: unmanaged})
		}
		if len(changes) >= objects.PageSize {
			break
		}
	}
	if len(changes) >= objects.PageSize {
		more := "more objects of " + s.group.path.String()
		changes = append(changes, sdk.Change{Object: more, Action: sdk.ActionDelete, Note: unmanaged})
	}
	for _, failed := range f.failures {
		changes = append(changes, sdk.Change{Object: failed.what, Action: sdk.ActionFail, Note: failed.err.Error()})
	}
	return changes
}
