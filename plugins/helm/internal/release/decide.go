package release

import (
	"fmt"
	"slices"
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
	// TakenFrom names the former deploy item of the release, for messages; empty for none. For Install and Upgrade.
	TakenFrom string
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
	if len(history) == 0 {
		return Decision{Action: Install, Revision: 1, Why: "there is no release"}
	}
	newest := history[len(history)-1]
	taken := newest.Status != StatusUninstalled && newest.isOfAnother(want)
	if taken && !want.TakeOwnership && !want.accepts(newest) {
		return Decision{Action: Conflict, Newest: newest.Version, Why: newest.refusalTo(want)}
	}
	adopted := Unclaimed(history, want)
	if adopted && newest.Chart != want.Chart && !want.TakeOwnership {
		return Decision{Action: Conflict, Newest: newest.Version, Why: fmt.Sprintf(
			"it belongs to no deploy item and is of chart %q, but the deploy item deploys chart %q: choose another name for "+
				"the release, or set helmDeploymentConfig.takeOwnership to true, and it is taken over", newest.Chart, want.Chart)}
	}
	d := Decision{
		Action: Upgrade, Newest: newest.Version, Revision: newest.Version + 1, Interrupted: interrupted(history),
		Adopted: adopted,
	}
	if taken {
		d.TakenFrom = newest.ownerFor(want)
	}
	made := newest.isMadeFor(want)
	if attempt := attemptAt(history, want); attempt.isMadeFor(want) {
		d.Retry, d.Children = attempt.Version, attempt.Children
	}
	switch {
	case newest.Status == StatusUninstalled:
		d.Action, d.Why = Install, fmt.Sprintf("revision %d was uninstalled", newest.Version)
	case !newest.Status.settled() && !made && newest.mayChange(want):
		return newest.waitFor(want)
	case neverDeployed(history):
		d.Action, d.Why = Install, fmt.Sprintf("revision %d is %s, and none was ever deployed", newest.Version, newest.Status)
	case newest.Status != StatusDeployed:
		d.Why = fmt.Sprintf("revision %d is %s", newest.Version, newest.Status)
	case taken:
		d.Why = fmt.Sprintf("revision %d belongs to %s", newest.Version, d.TakenFrom)
	case newest.Item == "":
		d.Why = fmt.Sprintf("revision %d belongs to no deploy item yet", newest.Version)
	case !made:
		d.Why = fmt.Sprintf("revision %d was made by somebody else", newest.Version)
	case newest.Input == RolledBack:
		d.Why = fmt.Sprintf("with revision %d a failed upgrade was rolled back", newest.Version)
	case newest.Input != want.Input:
		d.Why = fmt.Sprintf("revision %d was made from another chart, or with other values", newest.Version)
	case newest.Children != want.Children && !want.AnyChildren:
		d.Why = fmt.Sprintf("revision %d has objects that an HTTP hook has changed in another way", newest.Version)
	case want.Force:
		d.Why = "it is forced"
	case want.Drifted:
		d.Why = fmt.Sprintf("objects of revision %d have changed", newest.Version)
	default:
		return Decision{
			Action: Nothing, Newest: newest.Version, Revision: newest.Version,
			Why: fmt.Sprintf("revision %d is deployed", newest.Version),
		}
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
	if len(history) == 0 {
		return Decision{Action: Nothing, Why: "there is no release"}
	}
	newest := history[len(history)-1]
	d := Decision{
		Action: Uninstall, Newest: newest.Version, Why: fmt.Sprintf("revision %d is %s", newest.Version, newest.Status),
	}
	switch {
	case newest.isOfAnother(want) && !want.accepts(newest):
		d.Action, d.Why = Leave, fmt.Sprintf("it belongs to %s, and goes with that", newest.ownerFor(want))
	case newest.Item == "" && !want.Claimed:
		d.Action, d.Why = Leave, "it belongs to no deploy item; if it is to go, uninstall it with the Helm CLI"
	case newest.Item == "" && newest.Status == StatusUninstalled:
		d.Action = Nothing
	case !newest.Status.settled() && !newest.isMadeFor(want) && newest.mayChange(want):
		return newest.waitFor(want)
	default:
		d.Interrupted = interrupted(history)
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

// neverDeployed reports whether no installation has succeeded yet. Only deployed revisions become superseded.
func neverDeployed(history []Revision) bool {
	return !slices.ContainsFunc(history, func(r Revision) bool {
		return r.Status == StatusDeployed || r.Status == StatusSuperseded
	})
}

// interrupted returns the revisions in progress without a working process; the caller has checked the newest one.
func interrupted(history []Revision) []int {
	var versions []int
	for _, r := range history {
		if !r.Status.settled() {
			versions = append(versions, r.Version)
		}
	}
	return versions
}

// isOfAnother reports whether the release belongs to another deploy item, even one of the same name.
func (r Revision) isOfAnother(want Want) bool {
	return r.Item != "" && (r.Item != want.Item || r.isForeignTo(want))
}

// isForeignTo reports whether the release belongs to a deploy item of another installation. A revision may be older
// than the label, and has none then.
func (r Revision) isForeignTo(want Want) bool {
	return r.Installation != "" && want.Installation != "" && r.Installation != want.Installation
}

// accepts reports whether the deploy item may take the release of the item of its name in another installation: by
// order of the user, or because this item was restored from that one and the release has not changed since.
func (w Want) accepts(r Revision) bool {
	return r.Item == w.Item && r.isForeignTo(w) &&
		(r.Installation == w.TakeOverFrom || w.Restored == Restored{Installation: r.Installation, Revision: r.Version})
}

// ownerFor names the deploy item of the release.
func (r Revision) ownerFor(want Want) string {
	if r.isForeignTo(want) {
		return fmt.Sprintf("the deploy item %q of the installation %s", r.Item, r.Installation)
	}
	return fmt.Sprintf("the deploy item %q", r.Item)
}

// refusalTo returns the reason against taking a release, and the remedy.
func (r Revision) refusalTo(want Want) string {
	if r.Item == want.Item {
		return fmt.Sprintf("it belongs to %s, which is another control plane than that of this deploy item: choose another "+
			"name for the release, or, if that control plane is gone or gives the release up, annotate this deploy item with "+
			"%s: %q, and it is taken over", r.ownerFor(want), owner.TakeOverAnnotation, r.Installation)
	}
	return fmt.Sprintf("it belongs to %s: delete that deploy item, or choose another name for the release; if there "+
		"is no such deploy item any more, set helmDeploymentConfig.takeOwnership to true, and it is taken over", r.ownerFor(want))
}

// isMadeFor reports whether Pergola has made the revision for the deploy item.
func (r Revision) isMadeFor(want Want) bool {
	return r.Item == want.Item && !r.isForeignTo(want) && r.Input != ""
}

// isAttemptAt reports whether the revision is a failed or interrupted attempt of the wanted job at its input.
func (r Revision) isAttemptAt(want Want) bool {
	return want.Job != "" && r.Job == want.Job && r.Input == want.Input && r.Status != StatusDeployed && r.Status != StatusUninstalled &&
		r.Status != StatusSuperseded
}

// attemptAt returns the last attempt of the wanted job; the zero value for none.
func attemptAt(history []Revision, want Want) Revision {
	last := Newest(history)
	if len(history) > 1 && last.isMadeFor(want) && last.Input == RolledBack && last.Job == want.Job {
		last = history[len(history)-2]
	}
	if !last.isAttemptAt(want) {
		return Revision{}
	}
	return last
}

// mayChange reports whether a revision in progress is still within its grace period.
func (r Revision) mayChange(want Want) bool { return want.Now.Before(r.ModifiedAt.Add(want.Grace)) }

func (r Revision) waitFor(want Want) Decision {
	until := r.ModifiedAt.Add(want.Grace)
	return Decision{Action: Wait, Newest: r.Version, Until: until, Why: fmt.Sprintf(
		"somebody else's operation on the release, whose revision %d is %s; "+
			"it counts as interrupted at %s if nothing happens until then",
		r.Version, r.Status, until.UTC().Format(time.RFC3339))}
}
