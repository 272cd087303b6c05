package remove

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// maxMoves bounds what is done about one object per call when others change it at the same time.
	maxMoves = 8
	// maxConflicts is how often a deletion may fail because the object has changed since it was looked at. After that only the uid counts,
	// or an object that changes all the time could not be deleted.
	maxConflicts = 3
)

// item is a managed object that a group has taken.
type item struct {
	key     object.Key
	mapping target.Mapping
	entry   managedresource.ManagedResourceStatus
	// force removes its finalizers.
	force bool
	// anybodys says that it is deleted whoever it belongs to.
	anybodys bool
	// listed are the metadata of the object as it was just found in a list; nil if it was not.
	listed *unstructured.Unstructured
}

// outcome is what came of one object: at most one of left, waiting and err is set; if none is, the object is gone.
type outcome struct {
	left    string
	waiting string
	err     error
	// seen is the object as it was seen last; nil if it is not waited for.
	seen *watch.Seen
}

// move is what is to be done next about an object.
type move int

const (
	// moveForget: it is not the object that was managed, or not one that goes.
	moveForget move = iota
	// moveLeave: it stays.
	moveLeave
	// movePrepare: it is changed before it is deleted.
	movePrepare
	moveDelete
	// moveStrip: its finalizers are removed.
	moveStrip
	moveWait
)

// next decides what comes next for an object as it was just seen, and says why if it is left. preparation is nil if there is none or if it
// was made already.
func (it item) next(live *unstructured.Unstructured, d Deletion, preparation map[string]any) (next move, why string) {
	known := it.entry.Resource.UID
	_, labelled := live.GetLabels()[owner.Label]
	relation := d.Owner.Of(live)
	if d.Kept != nil {
		why = d.Kept(it.entry, live)
	}
	switch {
	case d.Applied[live.GetUID()]:
		return moveForget, ""
	case known != "" && known != live.GetUID() && !madeBy(d.Owner, live):
		return moveForget, ""
	case why != "" && live.GetDeletionTimestamp() == nil:
		return moveLeave, why
	case it.anybodys: // It goes.
	case known == "" && relation != owner.Ours:
		return moveForget, ""
	case labelled && relation == owner.Others:
		return moveLeave, "taken over by the deploy item " + owner.Of(live, d.Owner.UpstreamLabel)
	case it.entry.Policy == managedresource.PolicyFallback && relation != owner.Ours:
		return moveLeave, "policy fallback, and it is not labelled as belonging to this deploy item"
	}
	switch {
	case live.GetDeletionTimestamp() != nil && it.force && len(live.GetFinalizers()) > 0:
		return moveStrip, ""
	case live.GetDeletionTimestamp() != nil:
		return moveWait, ""
	case differs(live.Object, preparation):
		return movePrepare, ""
	default:
		return moveDelete, ""
	}
}

// madeBy tells whether an object that is not the one on the ledger was made by the deploy item itself: it creates one anew that was missing
// or had to be replaced, and may be cut off before the new uid is saved. The label alone does not tell, since people copy labels; who copies
// an object is told by its field managers.
func madeBy(by owner.Owner, live *unstructured.Unstructured) bool {
	return live.GetLabels()[owner.Label] == by.Labels()[owner.Label] &&
		slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == fieldManager && e.Subresource == "" })
}

// remove goes on with an object until it is gone, is not to be deleted, or can only be waited for. Where the answer to a request does not
// tell, the object is looked at again; so a call that was cut off anywhere is continued by the next one.
func (it item) remove(ctx context.Context, client *target.Client, d Deletion) outcome {
	preparation, err := preparationOf(it.entry)
	if err != nil {
		return outcome{err: err}
	}
	objects := it.objects(client)
	live := it.listed // if so, there is no preparation
	var conflict error
	conflicts := 0
	for range maxMoves {
		missing := preparation
		if live == nil {
			live, err = objects.Get(ctx, it.key.Name, metav1.GetOptions{})
			if err != nil {
				return outcome{err: ignoreGone(err)}
			}
		} else {
			missing = nil // This is what the API server made of it; a webhook that undoes it must not hold the deletion up.
		}
		seen := &watch.Seen{Client: client, Mapping: it.mapping, Key: it.key, ResourceVersion: live.GetResourceVersion()}
		next, why := it.next(live, d, missing)
		switch next {
		case moveForget:
			return outcome{}
		case moveLeave:
			return outcome{left: why}
		case moveWait:
			return outcome{waiting: describe(it.key, live), seen: seen}
		case movePrepare:
			live, err = patch(ctx, objects, live, preparation)
			err = withoutObject(err)
		case moveStrip:
			live, err = nil, strip(ctx, objects, live)
		case moveDelete:
			live, err = nil, send(ctx, objects, live, conflicts < maxConflicts)
		}
		switch {
		case apierrors.IsConflict(err):
			conflict, live = err, nil
			conflicts++
		case apierrors.IsNotFound(err):
			live = nil
		case err != nil:
			return outcome{err: err, seen: seen}
		}
	}
	if conflict != nil {
		return outcome{err: fmt.Errorf("others keep changing it at the same time: %w", conflict)}
	}
	return outcome{waiting: fmt.Sprintf("%s (its deletion was accepted but has no effect)", it.key)}
}

func (it item) objects(client *target.Client) dynamic.ResourceInterface {
	return client.Objects(it.mapping, it.key.Namespace)
}

// send sends the deletion of the object that was looked at, and if unchanged is true, only as it was then.
func send(ctx context.Context, objects dynamic.ResourceInterface, o metav1.Object, unchanged bool) error {
	uid, resourceVersion := o.GetUID(), o.GetResourceVersion()
	preconditions := &metav1.Preconditions{UID: &uid}
	if unchanged {
		preconditions.ResourceVersion = &resourceVersion
	}
	background := metav1.DeletePropagationBackground
	return objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: preconditions, PropagationPolicy: &background})
}

// patch changes the very object that was looked at by a JSON merge patch, whose metadata, if it has any, is a map.
func patch(
	ctx context.Context, objects dynamic.ResourceInterface, o metav1.Object, change map[string]any,
) (*unstructured.Unstructured, error) {
	document, err := json.Marshal(tied(change, o.GetUID()))
	if err != nil {
		return nil, fmt.Errorf("write the patch: %w", err)
	}
	return objects.Patch(ctx, o.GetName(), types.MergePatchType, document, metav1.PatchOptions{FieldManager: fieldManager})
}

// tied returns a merge patch that is refused with a conflict by any other object than the one with the uid.
func tied(change map[string]any, uid types.UID) map[string]any {
	return compose(change, map[string]any{"metadata": map[string]any{"uid": string(uid)}})
}

func strip(ctx context.Context, objects dynamic.ResourceInterface, o metav1.Object) error {
	_, err := patch(ctx, objects, o, withoutFinalizers())
	return err
}

func withoutFinalizers() map[string]any {
	return map[string]any{"metadata": map[string]any{"finalizers": nil}}
}

// ignoreGone returns nil for the error about an object that does not exist.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) && !notServed(err) {
		return nil
	}
	return err
}
