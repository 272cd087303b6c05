package release

import (
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// state is a release in view of the wanted one. The package comment has the meaning of each, and its decision.
type state string

const (
	absent        state = "absent"
	uninstalled   state = "uninstalled"
	foreign       state = "foreign"
	otherChart    state = "otherChart"
	busy          state = "busy"
	neverDeployed state = "neverDeployed"
	interrupted   state = "interrupted"
	failed        state = "failed"
	taken         state = "taken"
	unowned       state = "unowned"
	changed       state = "changed"
	reverted      state = "reverted"
	outdated      state = "outdated"
	otherChildren state = "otherChildren"
	forced        state = "forced"
	drifted       state = "drifted"
	current       state = "current"
	claimed       state = "claimed"
	owned         state = "owned"
)

// stateOf classifies a release for Decide.
func stateOf(history []Revision, want Want) state {
	newest := Newest(history)
	switch {
	case len(history) == 0:
		return absent
	case newest.Status == StatusUninstalled:
		return uninstalled
	case newest.isOfAnother(want) && !want.TakeOwnership && !want.accepts(newest):
		return foreign
	case Unclaimed(history, want) && newest.Chart != want.Chart && !want.TakeOwnership:
		return otherChart
	case newest.isBusy(want):
		return busy
	case !everDeployed(history):
		return neverDeployed
	case !newest.Status.settled():
		return interrupted
	case newest.Status != StatusDeployed:
		return failed
	case newest.isOfAnother(want):
		return taken
	case newest.Item == "":
		return unowned
	default:
		return stateOfOwn(newest, want)
	}
}

// stateOfOwn classifies a deployed release of the deploy item.
func stateOfOwn(newest Revision, want Want) state {
	switch {
	case !newest.isMadeFor(want):
		return changed
	case newest.Input == RolledBack:
		return reverted
	case newest.Input != want.Input:
		return outdated
	case newest.Children != want.Children && !want.AnyChildren:
		return otherChildren
	case want.Force:
		return forced
	case want.Drifted:
		return drifted
	default:
		return current
	}
}

// stateAtRemoval classifies a release for DecideRemoval.
func stateAtRemoval(history []Revision, want Want) state {
	newest := Newest(history)
	switch {
	case len(history) == 0:
		return absent
	case newest.isOfAnother(want) && !want.accepts(newest):
		return foreign
	case newest.Item == "" && !want.Claimed:
		return unowned
	case newest.Item == "" && newest.Status == StatusUninstalled:
		return uninstalled
	case newest.isBusy(want):
		return busy
	case want.Heir != "" && newest.Item == want.Item && everDeployed(history) &&
		newest.Status.settled() && newest.Status != StatusUninstalled:
		return claimed
	default:
		return owned
	}
}

// explain returns the text of Decision.Why.
func explain(is state, newest Revision, want Want) string {
	revision := fmt.Sprintf("revision %d", newest.Version)
	switch is {
	case absent:
		return "there is no release"
	case uninstalled:
		return revision + " was uninstalled"
	case foreign:
		return newest.refusalTo(want)
	case otherChart:
		return fmt.Sprintf("it belongs to no deploy item and is of chart %q, but the deploy item deploys chart %q: choose "+
			"another name for the release, or set helmDeploymentConfig.takeOwnership to true to take it over",
			newest.Chart, want.Chart)
	case busy:
		return fmt.Sprintf("another client's operation on the release: %s is %s; it counts as interrupted at %s if nothing "+
			"happens until then", revision, newest.Status, newest.busyUntil(want).UTC().Format(time.RFC3339))
	case neverDeployed:
		return fmt.Sprintf("%s is %s, and none was ever deployed", revision, newest.Status)
	case taken:
		return fmt.Sprintf("%s belongs to %s", revision, newest.ownerFor(want))
	case unowned:
		return revision + " belongs to no deploy item yet"
	case changed:
		return revision + " was made by another client"
	case reverted:
		return "with " + revision + " a failed upgrade was rolled back"
	case outdated:
		return revision + " was made from another chart, or with other values"
	case otherChildren:
		return revision + " has other objects than the HTTP hook wants"
	case forced:
		return "it is forced"
	case drifted:
		return "objects of " + revision + " have changed"
	default:
		return fmt.Sprintf("%s is %s", revision, newest.Status)
	}
}

// everDeployed reports whether an installation has succeeded. Only deployed revisions become superseded.
func everDeployed(history []Revision) bool {
	return slices.ContainsFunc(history, func(r Revision) bool {
		return r.Status == StatusDeployed || r.Status == StatusSuperseded
	})
}

// unsettled returns the revisions in progress without a working process; the caller has checked the newest one.
func unsettled(history []Revision) []int {
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
		return fmt.Sprintf("it belongs to %s, another control plane than that of this deploy item: choose another name "+
			"for the release, or, if that control plane is gone or gives the release up, annotate this deploy item with "+
			"%s: %q to take it over", r.ownerFor(want), owner.TakeOverAnnotation, r.Installation)
	}
	return fmt.Sprintf("it belongs to %s: delete that deploy item, or choose another name for the release; if there "+
		"is no such deploy item any more, set helmDeploymentConfig.takeOwnership to true to take it over", r.ownerFor(want))
}

// isMadeFor reports whether Pergola has made the revision for the deploy item.
func (r Revision) isMadeFor(want Want) bool {
	return r.Item == want.Item && !r.isForeignTo(want) && r.Input != ""
}

// isAttemptAt reports whether the revision is a failed or interrupted attempt of the wanted job at its input.
func (r Revision) isAttemptAt(want Want) bool {
	return want.Job != "" && r.Job == want.Job && r.Input == want.Input &&
		r.Status != StatusDeployed && r.Status != StatusUninstalled && r.Status != StatusSuperseded
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

// isBusy reports whether another client may be at work on the revision: it is in progress, and has changed within the
// grace period.
func (r Revision) isBusy(want Want) bool {
	return !r.Status.settled() && !r.isMadeFor(want) && want.Now.Before(r.busyUntil(want))
}

// busyUntil is the end of the grace period of a revision in progress.
func (r Revision) busyUntil(want Want) time.Time { return r.ModifiedAt.Add(want.Grace) }
