package release

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

const (
	us      = "ns.item"
	another = "ns.another"
	input   = "0123456789abcdef"
	grace   = 5 * time.Minute
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// revision returns one that was changed a minute ago.
func revision(version int, status Status, item, input string) Revision {
	return Revision{Version: version, Status: status, Item: item, Input: input, ModifiedAt: now.Add(-time.Minute)}
}

func old(r Revision) Revision {
	r.ModifiedAt = now.Add(-grace)
	return r
}

func wanted() Want { return Want{Item: us, Input: input, Now: now, Grace: grace} }

func TestDecide(t *testing.T) {
	t.Parallel()
	until := now.Add(4 * time.Minute)
	for name, c := range map[string]struct {
		reason  string
		history []Revision
		change  func(*Want)
		want    Decision
		why     string
	}{
		"none": {reason: "there is nothing", want: Decision{Action: Install, Revision: 1}, why: "there is no release"},
		"deployed": {
			reason: "it is as it should be", history: []Revision{revision(3, StatusDeployed, us, input)},
			want: Decision{Action: Nothing, Newest: 3, Revision: 3}, why: "revision 3 is deployed",
		},
		"forced": {
			reason: "the user asks for it", history: []Revision{revision(3, StatusDeployed, us, input)}, change: func(w *Want) { w.Force = true },
			want: Decision{Action: Upgrade, Newest: 3, Revision: 4}, why: "it is forced",
		},
		"drifted": {
			reason: "an upgrade repairs it", history: []Revision{revision(3, StatusDeployed, us, input)}, change: func(w *Want) { w.Drifted = true },
			want: Decision{Action: Upgrade, Newest: 3, Revision: 4}, why: "objects of revision 3 have changed",
		},
		"other input": {
			reason: "something else is wanted", history: []Revision{revision(3, StatusDeployed, us, "fedcba9876543210")},
			want: Decision{Action: Upgrade, Newest: 3, Revision: 4}, why: "revision 3 was made from another chart, or with other values",
		},
		"hooked": {
			reason: "an HTTP hook changes what it did not change before", history: []Revision{revision(3, StatusDeployed, us, input)},
			change: func(w *Want) { w.Children = "abc" },
			want:   Decision{Action: Upgrade, Newest: 3, Revision: 4}, why: "revision 3 has objects that an HTTP hook has changed in another way",
		},
		"hooked, whatever it says": {
			reason: "the hook is not asked now", history: []Revision{revision(3, StatusDeployed, us, input)},
			change: func(w *Want) { w.Children, w.AnyChildren = "abc", true },
			want:   Decision{Action: Nothing, Newest: 3, Revision: 3}, why: "revision 3 is deployed",
		},
		"deployed by others": {
			reason: "nobody else has a claim to it: it is adopted", history: []Revision{revision(1, StatusDeployed, "", "")},
			want: Decision{Action: Upgrade, Newest: 1, Revision: 2}, why: "revision 1 belongs to no deploy item yet",
		},
		"item label removed": {
			reason: "it was made for somebody, but is nobody's", history: []Revision{revision(1, StatusDeployed, "", input)},
			want: Decision{Action: Upgrade, Newest: 1, Revision: 2}, why: "revision 1 belongs to no deploy item yet",
		},
		"upgraded or rolled back by others": {
			reason: "Helm has copied the labels", history: []Revision{revision(1, StatusSuperseded, us, input), revision(2, StatusDeployed, us, "")},
			want: Decision{Action: Upgrade, Newest: 2, Revision: 3}, why: "revision 2 was made by somebody else",
		},
		"rolled back by us": {
			reason: "the upgrade is tried again", history: []Revision{revision(2, StatusFailed, us, input), revision(3, StatusDeployed, us, RolledBack)},
			want: Decision{Action: Upgrade, Newest: 3, Revision: 4}, why: "with revision 3 a failed upgrade was rolled back",
		},
		"interrupted rollback": {
			reason: "nobody works on it", history: []Revision{revision(1, StatusSuperseded, us, input), revision(2, StatusFailed, us, input), revision(3, StatusPendingRollback, us, RolledBack)},
			want: Decision{Action: Upgrade, Newest: 3, Revision: 4, Interrupted: []int{3}}, why: "revision 3 is pending-rollback",
		},
		"several deployed": {
			reason: "the newest counts", history: []Revision{revision(1, StatusDeployed, us, "other"), revision(2, StatusDeployed, us, input)},
			want: Decision{Action: Nothing, Newest: 2, Revision: 2}, why: "revision 2 is deployed",
		},
		"failed": {
			reason: "the one before does not count, because its objects may be half-changed",
			history: []Revision{
				revision(1, StatusDeployed, us, input), revision(2, StatusFailed, us, "other"),
			},
			want: Decision{Action: Upgrade, Newest: 2, Revision: 3}, why: "revision 2 is failed",
		},
		"only failed": {
			reason: "what the hooks for the installation do was not done", history: []Revision{revision(1, StatusFailed, us, input)},
			want: Decision{Action: Install, Newest: 1, Revision: 2}, why: "revision 1 is failed",
		},
		"failed of nobody": {
			reason: "it is adopted like any other", history: []Revision{revision(1, StatusFailed, "", "")},
			want: Decision{Action: Install, Newest: 1, Revision: 2}, why: "revision 1 is failed",
		},
		"several failed": {
			reason: "each attempt stays in the history", history: []Revision{revision(1, StatusFailed, us, input), revision(2, StatusFailed, us, input)},
			want: Decision{Action: Install, Newest: 2, Revision: 3}, why: "revision 2 is failed, and none was ever deployed",
		},
		"failed since": {
			reason: "the hooks for the installation are done", history: []Revision{revision(1, StatusFailed, us, input), revision(2, StatusSuperseded, us, input), revision(3, StatusFailed, us, input)},
			want: Decision{Action: Upgrade, Newest: 3, Revision: 4}, why: "revision 3 is failed",
		},
		"only superseded": {
			reason: "the newest one was deleted", history: []Revision{revision(1, StatusSuperseded, us, input)},
			want: Decision{Action: Upgrade, Newest: 1, Revision: 2}, why: "revision 1 is superseded",
		},
		"interrupted": {
			reason: "nobody works on it", history: []Revision{revision(1, StatusDeployed, us, input), revision(2, StatusPendingUpgrade, us, "other")},
			want: Decision{Action: Upgrade, Newest: 2, Revision: 3, Interrupted: []int{2}}, why: "revision 2 is pending-upgrade",
		},
		"interrupted installation": {
			reason: "there was no revision before", history: []Revision{revision(1, StatusPendingInstall, us, input)},
			want: Decision{Action: Install, Newest: 1, Revision: 2, Interrupted: []int{1}}, why: "revision 1 is pending-install",
		},
		"interrupted removal": {
			reason: "of a failed atomic installation", history: []Revision{revision(1, StatusUninstalling, us, input)},
			want: Decision{Action: Install, Newest: 1, Revision: 2, Interrupted: []int{1}}, why: "revision 1 is uninstalling",
		},
		"in progress": {
			reason: "somebody may be working on it", history: []Revision{revision(1, StatusPendingInstall, "", "")},
			want: Decision{Action: Wait, Newest: 1, Until: until},
			why:  "somebody else's operation on the release, whose revision 1 is pending-install; it counts as interrupted at 2026-01-02T03:08:05Z if nothing happens until then",
		},
		"rollback in progress": {
			reason: "Helm has copied the labels", history: []Revision{revision(1, StatusSuperseded, us, input), revision(2, StatusPendingRollback, us, "")},
			want: Decision{Action: Wait, Newest: 2, Until: until}, why: "somebody else's operation",
		},
		"removal in progress": {
			reason: "by somebody else", history: []Revision{revision(1, StatusUninstalling, "", "")}, want: Decision{Action: Wait, Newest: 1, Until: until}, why: "somebody else's operation",
		},
		"forced while in progress": {
			reason: "Helm would refuse it", history: []Revision{revision(1, StatusPendingInstall, "", "")}, change: func(w *Want) { w.Force = true },
			want: Decision{Action: Wait, Newest: 1, Until: until}, why: "somebody else's operation",
		},
		"grace is over": {
			reason: "nobody works on it any more", history: []Revision{old(revision(1, StatusPendingInstall, "", ""))},
			want: Decision{Action: Install, Newest: 1, Revision: 2, Interrupted: []int{1}}, why: "revision 1 is pending-install",
		},
		"almost over": {
			reason: "the last moment counts", history: []Revision{revision(1, StatusPendingInstall, "", "")}, change: func(w *Want) { w.Now = until.Add(-1) },
			want: Decision{Action: Wait, Newest: 1, Until: until}, why: "somebody else's operation",
		},
		"stuck before": {
			reason:  "somebody has gone on from it, so it is marked at the next opportunity",
			history: []Revision{revision(1, StatusPendingInstall, "", ""), revision(2, StatusUnknown, "", ""), revision(3, StatusDeployed, us, "other")},
			want:    Decision{Action: Upgrade, Newest: 3, Revision: 4, Interrupted: []int{1, 2}}, why: "revision 3 was made from another chart",
		},
		"stuck before what is deployed": {
			reason:  "that is no reason for an upgrade",
			history: []Revision{revision(1, StatusPendingInstall, "", ""), revision(2, StatusDeployed, us, input)},
			want:    Decision{Action: Nothing, Newest: 2, Revision: 2}, why: "revision 2 is deployed",
		},
		"unknown": {
			reason: "nobody knows what it means", history: []Revision{revision(1, "paused", "", "")}, want: Decision{Action: Wait, Newest: 1, Until: until}, why: "is paused",
		},
		"unknown, old": {
			reason: "nobody cares any more", history: []Revision{old(revision(1, "paused", "", ""))},
			want: Decision{Action: Install, Newest: 1, Revision: 2, Interrupted: []int{1}}, why: "revision 1 is paused",
		},
		"of another": {
			reason: "two deploy items must not fight over it", history: []Revision{revision(1, StatusSuperseded, us, input), revision(7, StatusDeployed, another, input)},
			change: func(w *Want) { w.Force = true }, want: Decision{Action: Conflict, Newest: 7},
			why: `it belongs to the deploy item "ns.another": delete that deploy item, or choose another name for the release; if there is no such deploy item ` +
				`any more, set helmDeploymentConfig.takeOwnership to true, and it is taken over`,
		},
		"of another, failed": {
			reason: "it is still that item's to mend", history: []Revision{revision(1, StatusFailed, another, input)}, want: Decision{Action: Conflict, Newest: 1}, why: "belongs to",
		},
		"of another, in progress": {
			reason: "waiting would not help", history: []Revision{old(revision(1, StatusPendingInstall, another, input))}, want: Decision{Action: Conflict, Newest: 1}, why: "belongs to",
		},
		"of another, taken over": {
			reason: "the user says that the other item is gone", history: []Revision{revision(7, StatusDeployed, another, input)},
			change: func(w *Want) { w.TakeOwnership = true },
			want:   Decision{Action: Upgrade, Newest: 7, Revision: 8, TakenFrom: another}, why: `revision 7 belongs to the deploy item "ns.another"`,
		},
		"of another, in progress, taken over": {
			reason: "whoever works on it is let alone", history: []Revision{revision(1, StatusPendingInstall, another, input)},
			change: func(w *Want) { w.TakeOwnership = true }, want: Decision{Action: Wait, Newest: 1, Until: until}, why: "somebody else's operation",
		},
		"of us, taken over": {
			reason: "there is nothing to take", history: []Revision{revision(3, StatusDeployed, us, input)},
			change: func(w *Want) { w.TakeOwnership = true }, want: Decision{Action: Nothing, Newest: 3, Revision: 3}, why: "revision 3 is deployed",
		},
		"of another before": {
			reason: "the newest counts", history: []Revision{revision(1, StatusSuperseded, another, input), revision(2, StatusDeployed, us, input)},
			want: Decision{Action: Nothing, Newest: 2, Revision: 2}, why: "revision 2 is deployed",
		},
		"uninstalled": {
			reason: "its name is free", history: []Revision{revision(1, StatusSuperseded, us, ""), revision(2, StatusUninstalled, us, input)},
			want: Decision{Action: Install, Newest: 2, Revision: 3}, why: "revision 2 was uninstalled",
		},
		"uninstalled by another": {
			reason: "whoever has kept its history", history: []Revision{old(revision(1, StatusPendingInstall, another, "")), revision(2, StatusUninstalled, another, input)},
			want: Decision{Action: Install, Newest: 2, Revision: 3, Interrupted: []int{1}}, why: "revision 2 was uninstalled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := wanted()
			if c.change != nil {
				c.change(&want)
			}
			got := Decide(c.history, want)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Decision{}, "Why")); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if !strings.Contains(got.Why, c.why) {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.why, got.Why)
			}
		})
	}
}

// TestRenderedAs: templates see what Helm tells them when it does what was decided.
func TestRenderedAs(t *testing.T) {
	t.Parallel()
	for want, d := range map[int]Decision{
		1: {Action: Install, Newest: 4, Revision: 5}, 2: {Action: Upgrade, Newest: 1, Revision: 2}, 3: {Action: Nothing, Newest: 3, Revision: 3},
		4: {Action: Wait, Newest: 3}, 5: {Action: Conflict, Newest: 4},
	} {
		if got := d.RenderedAs(); got != want {
			t.Errorf("%s: expected %d, but found %d", d.Action, want, got)
		}
	}
}

func TestDecideRemoval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		history []Revision
		claimed bool
		want    Action
	}{
		"none":                    {reason: "it is gone", want: Nothing},
		"ours":                    {reason: "it goes with its item", history: []Revision{revision(1, StatusDeployed, us, input)}, want: Uninstall},
		"ours, changed":           {reason: "whoever has upgraded it", history: []Revision{revision(2, StatusDeployed, us, "")}, want: Uninstall},
		"ours, failed":            {reason: "so that nothing is left", history: []Revision{revision(1, StatusFailed, us, input)}, want: Uninstall},
		"ours, interrupted":       {reason: "nobody works on it", history: []Revision{revision(1, StatusPendingInstall, us, input)}, want: Uninstall},
		"ours, half removed":      {reason: "to be continued", history: []Revision{revision(1, StatusUninstalling, us, input)}, want: Uninstall},
		"ours, uninstalled":       {reason: "its history goes, too", history: []Revision{revision(1, StatusUninstalled, us, input)}, want: Uninstall},
		"ours, in progress":       {reason: "somebody else works on it", history: []Revision{revision(2, StatusPendingRollback, us, "")}, want: Wait},
		"ours, stuck":             {reason: "nobody works on it any more", history: []Revision{old(revision(2, StatusPendingRollback, us, ""))}, want: Uninstall},
		"of another":              {reason: "it goes with that item", history: []Revision{revision(1, StatusDeployed, another, input)}, claimed: true, want: Leave},
		"of another, interrupted": {reason: "at no time", history: []Revision{old(revision(1, StatusPendingInstall, another, input))}, want: Leave},
		"nobody's":                {reason: "the item has not made it", history: []Revision{revision(1, StatusDeployed, "", "")}, want: Leave},
		"nobody's, claimed":       {reason: "Landscaper has made it for the item", history: []Revision{revision(1, StatusDeployed, "", "")}, claimed: true, want: Uninstall},
		"nobody's, in progress":   {reason: "somebody works on it", history: []Revision{revision(1, StatusPendingUpgrade, "", "")}, claimed: true, want: Wait},
		"nobody's, uninstalled":   {reason: "who has kept the history wants it", history: []Revision{revision(1, StatusUninstalled, "", "")}, claimed: true, want: Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := wanted()
			want.Claimed = c.claimed
			got := DecideRemoval(c.history, want)
			if got.Action != c.want || got.Why == "" {
				t.Errorf("%s: expected %s, but found %+v", c.reason, c.want, got)
			}
			var marked []int
			if c.want == Uninstall {
				marked = interrupted(c.history)
			}
			if diff := cmp.Diff(marked, got.Interrupted); diff != "" {
				t.Errorf("%s: Helm refuses to remove what is in progress, so that is to be marked: -want +got:\n%s", c.reason, diff)
			}
			if (got.Action == Wait) != got.Until.After(now) {
				t.Errorf("%s: expected an end of a wait and of nothing else, but found %+v", c.reason, got)
			}
		})
	}
}

func TestExistsAndOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history []Revision
		exists  bool
		of      owner.Relation
	}{
		"none":        {of: owner.Nobodys},
		"ours":        {history: []Revision{revision(1, StatusFailed, another, ""), revision(2, StatusPendingUpgrade, us, "")}, exists: true, of: owner.Ours},
		"another's":   {history: []Revision{revision(1, StatusDeployed, us, input), revision(2, StatusDeployed, another, "")}, exists: true, of: owner.Others},
		"nobody's":    {history: []Revision{revision(1, StatusDeployed, us, input), revision(2, StatusFailed, "", "")}, exists: true, of: owner.Nobodys},
		"uninstalled": {history: []Revision{revision(1, StatusSuperseded, us, input), revision(2, StatusUninstalled, us, "")}, of: owner.Ours},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if exists, of := Exists(c.history), Of(c.history, us); exists != c.exists || of != c.of {
				t.Errorf("expected %t and %d, but found %t and %d", c.exists, c.of, exists, of)
			}
		})
	}
}

func ExampleDecide() {
	history := []Revision{{Version: 1, Status: StatusDeployed, Item: "shops.shop", Input: Input([]byte("chart"), []byte(`{"replicas":1}`))}}
	d := Decide(history, Want{Item: "shops.shop", Input: Input([]byte("chart"), []byte(`{"replicas":2}`))})
	fmt.Println(d.Action, d.Revision, "because", d.Why)
	// Output: Upgrade 2 because revision 1 was made from another chart, or with other values
}
