package apply

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// action is the work to do on an object, or the work done.
type action int

const (
	// create: it is missing.
	create action = iota
	// write: it has to be written.
	write
	// compare: only a dry run of the write shows whether it has to be written.
	compare
	// recreate: it cannot be changed to its manifest, and has to be deleted first.
	recreate
	// leave: it is as it should be, or must not be changed.
	leave
	// skip: the deploy item does not manage it.
	skip
	// wait: it cannot be created yet.
	wait
	// done: it has completed its work and is gone.
	done
	// refuse: it belongs to a deploy item of another installation.
	refuse
	// vanished: the job has applied it, and it is gone.
	vanished
)

// outcome is the action for an object and, later on, its result.
type outcome struct {
	action action
	// item is the object's item with the fields of other clients as found on the target; nil if it has not changed.
	item *Item
	// why is the reason for skip and wait; for recreate it names the losses.
	why string
	// before is the object as found; nil if there was none.
	before *unstructured.Unstructured
	// live is the object as it is now, with its hash; for create, write and leave.
	live *unstructured.Unstructured
	hash string
	// drift has the changes by others.
	drift *Drift
	// settled: an earlier call of the job has applied it.
	settled bool
	// takenFrom is the former deploy item of the object.
	takenFrom string
	// adopted: it existed, and belonged to no deploy item.
	adopted bool
	// retained are the fields dropped from the manifest and impossible to remove.
	retained []string
	// shared are the fields dropped from the manifest and set by other managers, too, for the inventory; sharers has
	// them with the managers, for messages.
	shared  string
	sharers []string
	// warnings are those of the API server.
	warnings []Warning
	// unwritten: the target has refused the write, and the object is unchanged.
	unwritten bool
	err       error
}

// existed reports whether an object was there before the deploy item applied it. It is false without an owner: of
// objects written by others, such as Helm, it is unknown.
func (o outcome) existed(i *Item) bool {
	found := cmp.Or(o.before, o.live)
	return o.action != create && !i.owner.IsZero() && i.relation(found) != owner.Ours
}

// recognized reports whether an object was there with the label of the deploy item. Landscaper's label does not
// count: it has no namespace.
func (o outcome) recognized(i *Item) bool {
	found := cmp.Or(o.before, o.live)
	return o.action != create && i.relation(found) == owner.Ours && found.GetLabels()[owner.Label] != ""
}

// decide returns the action for an object; live is nil if it does not exist. entry is its entry in the inventory
// before the call.
func (p *Plan) decide(i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) outcome {
	rule := RuleOf(i.Policy)
	deleting := live != nil && live.GetDeletionTimestamp() != nil
	leaveWith := func(hash string) outcome { return outcome{action: leave, before: live, live: live, hash: hash} }
	switch {
	case p.isDone(i, entry, live):
		return outcome{action: done}
	case live == nil && p.isSettled(i):
		return outcome{action: vanished, err: Vanished(i)}
	case live == nil:
		return outcome{action: create}
	case p.isSettled(i) && live.GetUID() == entry.Resource.UID:
		return outcome{action: leave, before: live, live: live, hash: entry.Applied, settled: true}
	case deleting && p.countsAsDone(i, entry): // although it has failed
		return leaveWith(entry.Applied)
	case rule.OursOnly && i.relation(live) != owner.Ours:
		why := fmt.Sprintf("its policy is %s, and it belongs to %s", i.Policy, i.ownerOf(live))
		return outcome{action: skip, why: why}
	case i.relation(live) == owner.Foreign:
		return outcome{action: refuse, before: live, err: ownedElsewhere(i, live)}
	case deleting && isFirstSeenDone(i, entry, live):
		return leaveWith(entry.Applied)
	case deleting:
		why := fmt.Sprintf("%s, which is being deleted, to be gone before it is created again", i.Key)
		return outcome{action: wait, why: why, before: live}
	case fits(entry.Applied, i, live) && !i.owner.IsMarkedElsewhere(live) && (!i.Force || entry.Shared == ""):
		return leaveWith(entry.Applied)
	case !rule.Updated:
		// Without a hash: if it becomes ours to change, it has to be compared with the manifest.
		return leaveWith("")
	case i.Strategy != managedresource.UpdateStrategyApply && same(wanted(i, live), live):
		return leaveWith(hashOf(i, live))
	case entry.Applied == "":
		return outcome{action: compare}
	default:
		return outcome{action: write}
	}
}

// isDone reports whether an object is completed, and gone or about to go.
func (p *Plan) isDone(i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) bool {
	if live == nil {
		return p.countsAsDone(i, entry)
	}
	_, failed := completion.Failure(live)
	return live.GetDeletionTimestamp() != nil && !failed && p.countsAsDone(i, entry)
}

// countsAsDone reports whether an object counts as completed by its entry alone. The manifest of a settled object
// does not matter: another rendering of the same job may have changed it.
func (p *Plan) countsAsDone(i *Item, entry managedresource.ManagedResourceStatus) bool {
	return p.Done != nil && p.Done(entry) && (!i.Stale(entry.Applied) || p.isSettled(i))
}

func (p *Plan) isSettled(i *Item) bool { return p.Settled != nil && p.Settled(i.Key) }

// isFirstSeenDone reports whether an object is complete and was not at the last read: its completion is the reason
// for its deletion.
func isFirstSeenDone(i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) bool {
	return entry.DoneIn == "" && entry.Resource.UID == live.GetUID() && !i.Stale(entry.Applied) &&
		completion.IsComplete(live)
}

// ownerOf names the owner of an object that is not ours.
func (i *Item) ownerOf(live *unstructured.Unstructured) string {
	return cmp.Or(i.owner.Describe(live), "no deploy item")
}
