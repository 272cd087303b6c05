package release

import (
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// Action is an operation on a release, or the decision against one.
type Action string

// The actions.
const (
	// Nothing: the release is up to date.
	Nothing Action = "Nothing"
	// Install makes the first revision, also after failed attempts without a deployed one, or after an uninstallation
	// with a kept history.
	Install Action = "Install"
	// Upgrade makes another revision.
	Upgrade Action = "Upgrade"
	// Uninstall removes the release with its history.
	Uninstall Action = "Uninstall"
	// Wait: another client works on the release. Look again at the latest at Decision.Until.
	Wait Action = "Wait"
	// Conflict: the release belongs to another deploy item.
	Conflict Action = "Conflict"
	// Bequeath: the release goes to the Heir as it is.
	Bequeath Action = "Bequeath"
	// Leave: the release is not the deploy item's to remove.
	Leave Action = "Leave"
)

// Want is the release wanted by a deploy item.
type Want struct {
	// Item is the deploy item, as the value of the label on its objects.
	Item string
	// Installation is the installation of the deploy item; empty if unknown. Item is unique within one installation
	// only.
	Installation string
	// TakeOverFrom is another installation; the release of its deploy item of the same name is taken over. Empty for
	// none.
	TakeOverFrom string
	// Restored is the revision deployed by the item, by its own account, in the installation from which it was restored;
	// its zero value for none.
	Restored Restored
	// Input is the digest of the release's input.
	Input string
	// Job is the digest of the job, see Input; empty for any job.
	Job string
	// Children is the digest of the objects in place of the rendered ones; empty for none. With AnyChildren it does not
	// matter.
	Children    string
	AnyChildren bool
	// Chart is the name of the chart, for an Unclaimed release.
	Chart string
	// TakeOwnership permits a release of another deploy item, or one of no item and another chart. For Decide only.
	TakeOwnership bool
	// Force asks for another revision in any case.
	Force bool
	// Drifted is set if objects of the release differ from the deployed ones.
	Drifted bool
	// Claimed is set if the deploy item has deployed the release by its own account. Then the release is the item's
	// unless a label names another.
	Claimed bool
	// Heir is another deploy item, as the value of the label, that deploys the same chart as this release; empty for
	// none. For DecideRemoval only.
	Heir string
	// Now is the time. Grace is the time without a change until another client's revision in progress counts as
	// interrupted.
	Now   time.Time
	Grace time.Duration
}

// Restored is a revision of another installation.
type Restored struct {
	Installation string
	Revision     int
}

// Decision is the next operation on a release.
type Decision struct {
	Action Action
	// Newest is the newest existing revision; zero for none.
	Newest int
	// Revision is the revision to be made by Install or Upgrade, for Labels; with Nothing it is the up-to-date revision.
	// Zero otherwise.
	Revision int
	// Retry is the failed attempt of the same job at the same input, repeated by Install or Upgrade: its objects are
	// settled, and its successful hooks are done. It may have been rolled back. Zero for none.
	Retry int
	// Children is the digest of the objects of Retry, see Revision.
	Children string
	// TakenFrom names the former deploy item of the release, for messages; empty for none. For Install, Upgrade and
	// Nothing.
	TakenFrom string
	// HeldBy is the deploy item of the release in this installation, as the value of the label; empty for none. For
	// Conflict.
	HeldBy string
	// Adopted is set if the release has belonged to no deploy item. For Install and Upgrade.
	Adopted bool
	// Interrupted are the revisions to mark as failed first, in ascending order. For Install, Upgrade and Uninstall.
	Interrupted []int
	// Until is the end of the wait without a change. For Wait only.
	Until time.Time
	// Why is a text for users. With Wait it completes "waiting for …"; with Conflict and Leave it has the remedy, too;
	// with other actions it is a clause.
	Why string
}

// Decide returns the next operation towards the wanted release; see the package comment. history is in ascending
// order.
func Decide(history []Revision, want Want) Decision {
	newest, is := Newest(history), stateOf(history, want)
	d := Decision{Newest: newest.Version, Why: explain(is, newest, want)}
	if newest.Bequeather != "" && !newest.isOfAnother(want) && !want.Claimed {
		d.TakenFrom = fmt.Sprintf("the deploy item %q", newest.Bequeather)
	}
	switch is {
	case current:
		d.Action, d.Revision = Nothing, newest.Version
		return d
	case foreign, otherChart:
		d.Action = Conflict
		if !newest.isForeignTo(want) {
			d.HeldBy = newest.Item
		}
		return d
	case busy:
		d.Action, d.Until = Wait, newest.busyUntil(want)
		return d
	case absent, uninstalled, neverDeployed:
		d.Action = Install
	default:
		d.Action = Upgrade
	}
	d.Revision, d.Interrupted = newest.Version+1, unsettled(history)
	d.Adopted = Unclaimed(history, want)
	if is != uninstalled && newest.isOfAnother(want) {
		d.TakenFrom = newest.ownerFor(want)
	}
	if attempt := attemptAt(history, want); attempt.isMadeFor(want) {
		d.Retry, d.Children = attempt.Version, attempt.Children
	}
	return d
}

// RenderedAs returns the revision passed to the templates for the objects of the decision's revision: always 1 for an
// installation, even with older revisions.
func (d Decision) RenderedAs() int {
	switch d.Action {
	case Install:
		return 1
	case Nothing, Upgrade:
		return d.Revision
	default:
		return d.Newest + 1
	}
}

// DecideRemoval returns the next operation to remove the release of a deleted deploy item; see the package comment.
// history is in ascending order. The wanted Input does not matter.
func DecideRemoval(history []Revision, want Want) Decision {
	newest, is := Newest(history), stateAtRemoval(history, want)
	d := Decision{Newest: newest.Version, Why: fmt.Sprintf("revision %d is %s", newest.Version, newest.Status)}
	switch is {
	case absent, uninstalled:
		d.Action = Nothing
	case foreign, unowned:
		d.Action = Leave
	case busy:
		d.Action, d.Until = Wait, newest.busyUntil(want)
	case claimed:
		d.Action = Bequeath
		d.Why = fmt.Sprintf("the deploy item %q deploys the same chart to it, and has it now", want.Heir)
	default:
		d.Action, d.Interrupted = Uninstall, unsettled(history)
	}
	switch is {
	case foreign:
		d.Why = fmt.Sprintf("it belongs to %s, and goes with that", newest.ownerFor(want))
	case unowned:
		d.Why = "it belongs to no deploy item; to remove it, uninstall it with the Helm CLI"
	case absent, busy:
		d.Why = explain(is, newest, want)
	default:
	}
	return d
}

// Newest returns the newest revision; the zero value for none.
func Newest(history []Revision) Revision {
	if len(history) == 0 {
		return Revision{}
	}
	return history[len(history)-1]
}

// StatusOf returns the status of a revision; StatusUninstalled if it does not exist any more.
func StatusOf(history []Revision, version int) Status {
	for _, r := range history {
		if r.Version == version {
			return r.Status
		}
	}
	return StatusUninstalled
}

// Exists reports whether there is a release: the kept history of an uninstalled one is none.
func Exists(history []Revision) bool {
	return len(history) > 0 && history[len(history)-1].Status != StatusUninstalled
}

// Of reports the owner of a release, as seen by the deploy item. A release of another installation is Ours if the
// item may take it.
func Of(history []Revision, want Want) owner.Relation {
	newest := Newest(history)
	switch {
	case newest.Item == "":
		return owner.Nobodys
	case !newest.isOfAnother(want) || want.accepts(newest):
		return owner.Ours
	case newest.isForeignTo(want):
		return owner.Foreign
	default:
		return owner.Others
	}
}

// Unclaimed reports whether there is a release of no deploy item, and not deployed by this one. Decide needs its
// Chart then.
func Unclaimed(history []Revision, want Want) bool {
	return Exists(history) && history[len(history)-1].Item == "" && !want.Claimed
}
