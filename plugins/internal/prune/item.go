package prune

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// maxActions bounds the actions on one object per call while others change it.
	maxActions = 8
	// maxConflicts bounds the deletions failed by a change of the object since it was read. After these only the uid
	// counts, or an object in constant change could not be deleted.
	maxConflicts = 3
)

// item is a managed object in a group.
type item struct {
	key     object.Key
	mapping target.Mapping
	entry   managedresource.ManagedResourceStatus
	// force removes its finalizers.
	force bool
	// ofAnyOwner: it is deleted, whether or not it belongs to the deploy item.
	ofAnyOwner bool
}

// state is the state of an object after the work on it.
type state int

const (
	// stateGone: it does not exist any more, or is not the deploy item's.
	stateGone state = iota
	// stateLeft: it stays.
	stateLeft
	// stateWaiting: it is on its way.
	stateWaiting
	// stateFailed: it could not be deleted.
	stateFailed
)

// outcome is the result of the work on one object.
type outcome struct {
	state state
	// text is the reason of stateLeft; for stateWaiting it names the object with the obstacles.
	text string
	err  error
	// seen is the object as it was read last; nil if it is not waited for.
	seen *watch.Seen
}

func failedWith(err error) outcome { return outcome{state: stateFailed, err: err} }

// action is the next work on an object.
type action int

const (
	// actionForget: the deploy item has just applied it, by another name.
	actionForget action = iota
	// actionLeave: it stays.
	actionLeave
	// actionPrepare: it is changed before it is deleted.
	actionPrepare
	actionDelete
	// actionRemoveFinalizers: its finalizers are removed.
	actionRemoveFinalizers
	actionWait
)

// next decides about an object as it was just read, with the reason if it is left. preparation is nil if there is
// none or if it was made already.
func (it item) next(
	d *deletion, live *unstructured.Unstructured, preparation map[string]any,
) (next action, why string) {
	known := it.entry.Resource.UID
	relation := d.Owner.Of(live)
	deleting := live.GetDeletionTimestamp() != nil
	why = d.stays.with(it.key, live.GetUID())
	if d.Kept != nil {
		why = cmp.Or(d.Kept(it.entry, live), why)
	}
	switch {
	case d.Applied[live.GetUID()]:
		return actionForget, ""
	case why != "" && !deleting:
		return actionLeave, why
	case it.ofAnyOwner: // it goes
	case d.Owner.IsTaken(live):
		return actionLeave, "it belongs to " + d.Owner.Describe(live)
	case known != "" && known != live.GetUID() && !d.Owner.Made(live):
		return actionLeave, "another client has created it anew; the object of this deploy item was deleted"
	case known == "" && relation != owner.Ours:
		return actionLeave, "it belongs to " + cmp.Or(d.Owner.Describe(live), "no deploy item")
	case objects.RuleOf(it.entry.Policy).OursOnly && relation != owner.Ours:
		return actionLeave,
			fmt.Sprintf("policy %s, and it does not have the label of this deploy item", it.entry.Policy)
	}
	switch {
	case deleting && it.force && len(live.GetFinalizers()) > 0:
		return actionRemoveFinalizers, ""
	case deleting:
		return actionWait, ""
	case objects.Changes(live.Object, preparation):
		return actionPrepare, ""
	default:
		return actionDelete, ""
	}
}

// decide is next for an object of any kind. A CustomResourceDefinition to be deleted stays if the deploy item has not
// created it, or not all of its resources: they would all go with it, also those of other namespaces.
func (it item) decide(
	ctx context.Context, d *deletion, live *unstructured.Unstructured, preparation map[string]any,
) (next action, why string, err error) {
	next, why = it.next(d, live, preparation)
	goes := next == actionPrepare || next == actionDelete
	switch {
	case !goes || it.ofAnyOwner || !object.IsCRD(it.key.Group, it.key.Kind):
		return next, why, nil
	case it.entry.Existed:
		return actionLeave, "it existed before this deploy item has applied it", nil
	}
	stranger, err := d.stranger(ctx, live)
	if err != nil {
		return next, "", fmt.Errorf("list its resources, to spare those of other owners: %w; "+
			"if none is needed, delete the CustomResourceDefinition by hand", err)
	}
	if stranger != "" {
		return actionLeave, fmt.Sprintf("%s, not created by this deploy item, would be deleted with it", stranger), nil
	}
	return next, why, nil
}

// remove works on an object until it is gone, stays, or can only be waited for. It begins with the metadata of the
// object if they were just listed. Where the answer to a request does not decide, the object is read again; so a call
// cut off anywhere is continued by the next one.
func (it item) remove(ctx context.Context, d *deletion, listed *unstructured.Unstructured) outcome {
	preparation, err := preparationOf(it.entry)
	if err != nil {
		return failedWith(err)
	}
	in := d.client.Objects(it.mapping, it.key.Namespace)
	live := listed // a listed object needs no preparation
	var conflict error
	conflicts := 0
	for range maxActions {
		missing := preparation
		if live == nil {
			live, err = in.Get(ctx, it.key.Name, metav1.GetOptions{})
			if err != nil {
				if err = ignoreGone(err); err != nil {
					return failedWith(err)
				}
				return outcome{state: stateGone}
			}
		} else {
			// This is the answer to the preparation; a webhook that undoes it must not hold the deletion up.
			missing = nil
		}
		seen := watch.SeenOf(d.client, it.mapping, it.key, live)
		next, why, err := it.decide(ctx, d, live, missing)
		if err != nil {
			return outcome{state: stateFailed, err: err, seen: &seen}
		}
		switch next {
		case actionForget:
			return outcome{state: stateGone}
		case actionLeave:
			return outcome{state: stateLeft, text: why}
		case actionWait:
			if it.isHome(d) {
				return outcome{state: stateGone}
			}
			return outcome{state: stateWaiting, text: describe(it.key, live), seen: &seen}
		case actionPrepare:
			live, err = objects.Patch(ctx, in, live, types.MergePatchType, preparation)
		case actionRemoveFinalizers:
			live, err = nil, removeFinalizers(ctx, in, live)
		case actionDelete:
			live, err = nil, objects.Delete(ctx, in, live, conflicts < maxConflicts)
		}
		switch {
		case apierrors.IsConflict(err):
			conflict, live = err, nil
			conflicts++
		case apierrors.IsNotFound(err):
			live = nil
		case err != nil:
			return outcome{state: stateFailed, err: err, seen: &seen}
		}
	}
	if conflict != nil {
		return failedWith(fmt.Errorf("others keep changing it at the same time: %w", conflict))
	}
	return it.waiting("its deletion was accepted but has no effect")
}

// isHome reports whether an object is the namespace with the deploy item itself. It ends after the item: to wait for it
// would hold up both.
func (it item) isHome(d *deletion) bool {
	return d.AtHome && !it.ofAnyOwner && isNamespace(it.key) && it.key.Name == d.Owner.Namespace
}

func (it item) waiting(obstacle string) outcome {
	return outcome{state: stateWaiting, text: fmt.Sprintf("%s (%s)", it.key, obstacle)}
}

// needsWhole reports whether more of the object than its metadata is needed to decide about it or to describe it.
func (it item) needsWhole() bool {
	return it.entry.PatchBeforeDelete != nil || len(it.entry.AnnotateBeforeDelete) > 0 ||
		hasObstacles(it.key.Group, it.key.Kind)
}

// stranger names a resource of a CustomResourceDefinition that is not of the deploy item; empty if there is none.
// Resources under deletion do not count.
func (d *deletion) stranger(ctx context.Context, definition *unstructured.Unstructured) (string, error) {
	kinds := objects.Defined(definition)
	if _, established := object.TrueCondition(definition, "Established"); len(kinds) == 0 || !established {
		return "", nil // no client has been able to create any
	}
	kind := kinds[0]
	own := map[types.UID]bool{}
	for _, e := range d.Entries {
		own[e.Resource.UID] = true
	}
	options := metav1.ListOptions{Limit: objects.PageSize}
	for {
		list, err := d.client.Metadata(kind.Mapping, "").List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if o.DeletionTimestamp == nil && !own[o.UID] && d.Owner.Of(o) != owner.Ours {
				key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: o.Namespace, Name: o.Name}
				return key.String(), nil
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return "", nil
		}
	}
}

// reasonPatch is the reason of the error about a patchBeforeDelete not applicable to any object.
const reasonPatch = "PatchBeforeDeleteInvalid"

// preparationOf returns the changes to an object before its deletion, as a JSON merge patch: annotateBeforeDelete,
// and patchBeforeDelete on top of it. It is nil if there is neither. The error does not quote the patch, because it
// may hold secrets.
func preparationOf(e managedresource.ManagedResourceStatus) (map[string]any, error) {
	var preparation map[string]any
	if len(e.AnnotateBeforeDelete) > 0 {
		annotations := make(map[string]any, len(e.AnnotateBeforeDelete))
		for key, value := range e.AnnotateBeforeDelete {
			annotations[key] = value
		}
		preparation = map[string]any{"metadata": map[string]any{"annotations": annotations}}
	}
	if e.PatchBeforeDelete == nil || len(e.PatchBeforeDelete.Raw) == 0 {
		return preparation, nil
	}
	var patch map[string]any
	if err := utiljson.Unmarshal(e.PatchBeforeDelete.Raw, &patch); err != nil {
		return nil, sdk.ConfigurationError(reasonPatch, "patchBeforeDelete is not a JSON object")
	}
	if metadata, ok := patch["metadata"]; ok {
		if _, isMap := metadata.(map[string]any); !isMap {
			return nil, sdk.ConfigurationError(reasonPatch, "patchBeforeDelete: metadata is not a map")
		}
	}
	return objects.Compose(preparation, patch), nil
}

func removeFinalizers(ctx context.Context, in dynamic.ResourceInterface, o metav1.Object) error {
	patch := map[string]any{"metadata": map[string]any{"finalizers": nil}}
	_, err := objects.Patch(ctx, in, o, types.MergePatchType, patch)
	return err
}
