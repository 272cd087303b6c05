package release

import (
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// Action is what is to be done about a release.
type Action string

// The actions.
const (
	// Nothing: the release is as it should be.
	Nothing Action = "Nothing"
	// Install makes the first revision, or one in the place of revisions of which none was ever deployed, or the
	// first after the release was uninstalled and its history kept.
	Install Action = "Install"
	// Upgrade makes another revision.
	Upgrade Action = "Upgrade"
	// Uninstall removes the release with its history.
	Uninstall Action = "Uninstall"
	// Wait: somebody else works on the release. Look again at the latest at Decision.Until.
	Wait Action = "Wait"
	// Conflict: the release belongs to another deploy item.
	Conflict Action = "Conflict"
	// Leave: the release is not the deploy item's to remove.
	Leave Action = "Leave"
)

// Want is what a deploy item wants of a release.
type Want struct {
	// Item is the deploy item, as the value of the label on its objects.
	Item string
	// Installation is the one that the deploy item is of; empty if nobody knows. Item is unique in one only.
	Installation string
	// TakeOverFrom is another installation whose release of Item is taken over; empty for none.
	TakeOverFrom string
	// Restored is the revision that the deploy item has deployed by its own account as an item of another installation,
	// from which it was restored; its zero value for none.
	Restored Restored
	// Input is the digest of what the release is to be made from.
	Input string
	// Job is the digest of the job, see Input; empty if it does not matter.
	Job string
	// Children is the digest of the objects that take the place of those that the chart is rendered to; empty for
	// none. With AnyChildren it does not matter which they are.
	Children    string
	AnyChildren bool
	// Chart is the name of the chart, for a release that is Unclaimed.
	Chart string
	// TakeOwnership says that the release may belong to another deploy item so far, or be of another chart if it belongs
	// to none. For Decide only.
	TakeOwnership bool
	// Force has another revision made in any case.
	Force bool
	// Drifted says that the objects of the release are not as it has made them.
	Drifted bool
	// Claimed says that the deploy item has deployed the release by its own account. Then it is the item's as long
	// as no label says otherwise.
	Claimed bool
	// Now is the time, and Grace how long a revision that somebody else has in progress may stay unchanged before
	// it counts as interrupted.
	Now   time.Time
	Grace time.Duration
}

// Restored is a revision of another installation.
type Restored struct {
	Installation string
	Revision     int
}

// Decision is what is to be done.
type Decision struct {
	Action Action
	// Newest is the newest revision that there is; zero if there is none.
	Newest int
	// Revision is the one that Install or Upgrade makes, for Labels; with Nothing it is the one that is as it
	// should be. Zero otherwise.
	Revision int
	// Retry is the failed attempt of the same job at the same input, which Install or Upgrade makes again: what it was
	// to deploy is settled, and its hooks that have succeeded are done. It may have been rolled back. Zero for none.
	Retry int
	// Children is the digest of the objects of Retry, see Revision.
	Children string
	// TakenFrom names the deploy item that the release has belonged to, for messages; empty for none. For Install and
	// Upgrade.
	TakenFrom string
	// Adopted says that the release has belonged to no deploy item. For Install and Upgrade.
	Adopted bool
	// Interrupted are the revisions to mark as failed before, in ascending order. For Install, Upgrade and Uninstall.
	Interrupted []int
	// Until is when the wait is over, if nothing happens until then. For Wait only.
	Until time.Time
	// Why is for people. With Wait it says what is waited for, as in "waiting for …", with Conflict and Leave also
	// what can be done; with other actions it is a clause.
	Why string
}

// Decide says what brings a release to what is wanted; see the package comment. history is in ascending order.
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

// RenderedAs returns the revision that templates are told of when the objects of the decision's revision are
// rendered: an installation is the first one for them, whatever was there before.
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

// DecideRemoval says what removes a release with its deploy item; see the package comment. history is in ascending
// order. Of what is wanted, the input does not matter.
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

// Newest returns the newest revision; the zero value if there is none.
func Newest(history []Revision) Revision {
	if len(history) == 0 {
		return Revision{}
	}
	return history[len(history)-1]
}

// StatusOf returns the status of a revision; StatusUninstalled if it is not there any more.
func StatusOf(history []Revision, version int) Status {
	for _, r := range history {
		if r.Version == version {
			return r.Status
		}
	}
	return StatusUninstalled
}

// Exists tells whether there is a release: a history that was kept of one that was uninstalled is none.
func Exists(history []Revision) bool {
	return len(history) > 0 && history[len(history)-1].Status != StatusUninstalled
}

// Of reports to whom a release belongs, as the deploy item sees it. What it may take from another installation is Ours.
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

// Unclaimed reports whether there is a release that belongs to no deploy item, and that the deploy item has not deployed.
// Decide needs its Chart then.
func Unclaimed(history []Revision, want Want) bool {
	return Exists(history) && history[len(history)-1].Item == "" && !want.Claimed
}

// neverDeployed tells whether the first installation has not come to its end yet. Only what was deployed is
// superseded.
func neverDeployed(history []Revision) bool {
	return !slices.ContainsFunc(history, func(r Revision) bool {
		return r.Status == StatusDeployed || r.Status == StatusSuperseded
	})
}

// interrupted returns the revisions on which nobody works although they say so; that is not asked about the newest
// one any more.
func interrupted(history []Revision) []int {
	var versions []int
	for _, r := range history {
		if !r.Status.settled() {
			versions = append(versions, r.Version)
		}
	}
	return versions
}

// isOfAnother reports whether the release belongs to another deploy item, be it one of the same name.
func (r Revision) isOfAnother(want Want) bool {
	return r.Item != "" && (r.Item != want.Item || r.isForeignTo(want))
}

// isForeignTo reports whether a deploy item of another installation has the release. A revision without the label was
// made before there was one.
func (r Revision) isForeignTo(want Want) bool {
	return r.Installation != "" && want.Installation != "" && r.Installation != want.Installation
}

// accepts reports whether the deploy item may take the release of the deploy item of its name in another installation:
// the user says so, or the release is what that was when this one was restored from it.
func (w Want) accepts(r Revision) bool {
	return r.Item == w.Item && r.isForeignTo(w) &&
		(r.Installation == w.TakeOverFrom || w.Restored == Restored{Installation: r.Installation, Revision: r.Version})
}

// ownerFor names the deploy item that has the release.
func (r Revision) ownerFor(want Want) string {
	if r.isForeignTo(want) {
		return fmt.Sprintf("the deploy item %q of the installation %s", r.Item, r.Installation)
	}
	return fmt.Sprintf("the deploy item %q", r.Item)
}

// refusalTo says why a release cannot be had, and what can be done.
func (r Revision) refusalTo(want Want) string {
	if r.Item == want.Item {
		return fmt.Sprintf("it belongs to %s, which is another control plane than that of this deploy item: choose another "+
			"name for the release, or, if that control plane is gone or gives the release up, annotate this deploy item with "+
			"%s: %q, and it is taken over", r.ownerFor(want), owner.TakeOverAnnotation, r.Installation)
	}
	return fmt.Sprintf("it belongs to %s: delete that deploy item, or choose another name for the release; if there "+
		"is no such deploy item any more, set helmDeploymentConfig.takeOwnership to true, and it is taken over", r.ownerFor(want))
}

// isMadeFor reports whether Pergola has made the revision for a deploy item.
func (r Revision) isMadeFor(want Want) bool {
	return r.Item == want.Item && !r.isForeignTo(want) && r.Input != ""
}

// isAttemptAt reports whether the job that wants something has tried to make it with the revision, and failed or was
// interrupted.
func (r Revision) isAttemptAt(want Want) bool {
	return want.Job != "" && r.Job == want.Job && r.Input == want.Input && r.Status != StatusDeployed && r.Status != StatusUninstalled &&
		r.Status != StatusSuperseded
}

// attemptAt returns the last attempt of the job that wants something; the zero value for none.
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

// mayChange tells whether the grace period of a revision in progress is not over.
func (r Revision) mayChange(want Want) bool { return want.Now.Before(r.ModifiedAt.Add(want.Grace)) }

func (r Revision) waitFor(want Want) Decision {
	until := r.ModifiedAt.Add(want.Grace)
	return Decision{Action: Wait, Newest: r.Version, Until: until, Why: fmt.Sprintf(
		"somebody else's operation on the release, whose revision %d is %s; "+
			"it counts as interrupted at %s if nothing happens until then",
		r.Version, r.Status, until.UTC().Format(time.RFC3339))}
}
