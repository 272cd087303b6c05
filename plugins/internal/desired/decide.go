package desired

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ReasonOwnedElsewhere is the reason of the error about an object of a deploy item of another installation.
const ReasonOwnedElsewhere = "OwnedElsewhere"

// Action is the work to do on an object, or the work done.
type Action int

const (
	// ActionCreate is for a missing object.
	ActionCreate Action = iota
	// ActionWrite is for an object to be written.
	ActionWrite
	// ActionCompare is for a possible write: only its dry run shows whether it would change anything.
	ActionCompare
	// ActionRecreate deletes an object first, because it cannot be changed to its manifest.
	ActionRecreate
	// ActionLeave is for an object as it should be, and for one not to be changed.
	ActionLeave
	// ActionSettled is for an object applied by an earlier call of the job.
	ActionSettled
	// ActionSkip is for an object not managed by the deploy item.
	ActionSkip
	// ActionWait is for an object not to be created yet.
	ActionWait
	// ActionDone is for an object gone after its work.
	ActionDone
	// ActionRefuse is for an object of a deploy item of another installation.
	ActionRefuse
	// ActionVanished is for an object gone after the job has applied it.
	ActionVanished
)

// Decision is the work to do on one object.
type Decision struct {
	Action Action
	// Why is the reason for ActionSkip and ActionWait.
	Why string
	// Hash is for the inventory, with ActionLeave and ActionSettled.
	Hash string
	// Err is the error for ActionRefuse and ActionVanished.
	Err error
}

// Progress is what earlier calls of the job, and earlier jobs, have done to objects.
type Progress struct {
	// Done reports whether the object of an entry is completed for the job, see ManagedResourceStatus.DoneIn. A completed
	// object, once gone, is not created again as long as its manifest is the same. Nil if none is completed.
	Done func(managedresource.ManagedResourceStatus) bool
	// Settled reports whether the job has applied an object in an earlier call. Such an object is neither compared nor
	// written, and its absence is an error. Nil if the job has applied none.
	Settled func(object.Key) bool
}

// Decide returns the work to do on an object; live is nil if it does not exist. entry is its entry in the inventory
// before the call.
func (p Progress) Decide(
	i *Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured,
) Decision {
	rule := objects.RuleOf(i.Policy)
	deleting := live != nil && live.GetDeletionTimestamp() != nil
	leaveWith := func(hash string) Decision { return Decision{Action: ActionLeave, Hash: hash} }
	switch {
	case p.IsDone(i, entry, live):
		return Decision{Action: ActionDone}
	case live == nil && p.IsSettled(i):
		return Decision{Action: ActionVanished, Err: Vanished(i)}
	case live == nil:
		return Decision{Action: ActionCreate}
	case p.IsSettled(i) && live.GetUID() == entry.Resource.UID:
		return Decision{Action: ActionSettled, Hash: entry.Applied}
	case deleting && p.countsAsDone(i, entry): // a failed one is left for readiness to judge
		return leaveWith(entry.Applied)
	case rule.OursOnly && i.Relation(live) != owner.Ours:
		why := fmt.Sprintf("its policy is %s, and it belongs to %s", i.Policy, i.ownerOf(live))
		return Decision{Action: ActionSkip, Why: why}
	case i.Relation(live) == owner.Foreign:
		return Decision{Action: ActionRefuse, Err: ownedElsewhere(i, live)}
	case deleting && isFirstSeenDone(i, entry, live):
		return leaveWith(entry.Applied)
	case deleting:
		why := fmt.Sprintf("%s to be gone: it is being deleted, and is created again then", i.Key)
		return Decision{Action: ActionWait, Why: why}
	case i.Fits(entry.Applied, live) && !i.Owner.IsMarkedElsewhere(live) && (!i.Force || entry.Shared == ""):
		return leaveWith(entry.Applied)
	case !rule.Updated:
		// Without a hash: if it becomes ours to change, it has to be compared with the manifest.
		return leaveWith("")
	case i.Strategy != managedresource.UpdateStrategyApply && objects.Same(Wanted(i, live), live):
		return leaveWith(i.Hash(live))
	case entry.Applied == "":
		return Decision{Action: ActionCompare}
	default:
		return Decision{Action: ActionWrite}
	}
}

// IsDone reports whether an object is completed, and gone or about to go.
func (p Progress) IsDone(i *Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) bool {
	if live == nil {
		return p.countsAsDone(i, entry)
	}
	_, failed := completion.Failure(live)
	return live.GetDeletionTimestamp() != nil && !failed && p.countsAsDone(i, entry)
}

// countsAsDone reports whether an object counts as completed by its entry alone. The manifest of a settled object
// does not matter: another rendering of the same job may have changed it.
func (p Progress) countsAsDone(i *Object, entry managedresource.ManagedResourceStatus) bool {
	return p.Done != nil && p.Done(entry) && (!i.Stale(entry.Applied) || p.IsSettled(i))
}

// IsSettled reports whether the job has applied an object in an earlier call.
func (p Progress) IsSettled(i *Object) bool { return p.Settled != nil && p.Settled(i.Key) }

// isFirstSeenDone reports whether an object is complete and was not at the last read: its completion is the reason
// for its deletion.
func isFirstSeenDone(i *Object, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) bool {
	return entry.DoneIn == "" && entry.Resource.UID == live.GetUID() && !i.Stale(entry.Applied) &&
		completion.IsComplete(live)
}

// ownerOf names the owner of an object that is not ours.
func (i *Object) ownerOf(live *unstructured.Unstructured) string {
	return cmp.Or(i.Owner.Describe(live), "no deploy item")
}

// ownedElsewhere is the error about an object of another installation, which may still have it: both control planes
// would overwrite and delete it in turn. Only the user can know.
func ownedElsewhere(i *Object, live *unstructured.Unstructured) error {
	err := sdk.ConfigurationError(ReasonOwnedElsewhere,
		"it belongs to %s, on another control plane than this deploy item; give the object another name, or, if the "+
			"other control plane is gone or gives the object up, annotate this deploy item with %s: %q to take it over",
		i.Owner.Describe(live), owner.TakeOverAnnotation, owner.Mark(live))
	err.Heals = true
	return err
}
