package release

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// revisions reads a history: version, status, deploy item and input of each revision, "-" for none, and whether it
// is old.
func revisions(t *testing.T, text string) []Revision {
	t.Helper()
	var all []Revision
	for one := range strings.SplitSeq(text, "; ") {
		fields := strings.Fields(one)
		if len(fields) < 4 {
			continue
		}
		version, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{"-": "", "us": us, "another": another, "input": input, "rolledback": RolledBack}
		value := func(i int) string {
			if known, ok := values[fields[i]]; ok {
				return known
			}
			return fields[i]
		}
		r := revision(version, Status(fields[1]), value(2), value(3))
		if len(fields) > 4 {
			r = old(r)
		}
		all = append(all, r)
	}
	return all
}

func TestDecide(t *testing.T) {
	t.Parallel()
	until := now.Add(4 * time.Minute)
	forced, drifted := func(w *Want) { w.Force = true }, func(w *Want) { w.Drifted = true }
	takenOver := func(w *Want) { w.TakeOwnership = true }
	for _, c := range []struct {
		reason, history string
		change          func(*Want)
		// want is the state, the action, the newest revision, the new or current one, and the interrupted ones.
		want, why string
	}{
		{"there is nothing", "", nil, "absent: Install 0 1 []", "there is no release"},
		// Rule (helm.md#unchanged-releases-and-drift): An unchanged release gets no revision.
		{"it is as it should be", "3 deployed us input", nil, "current: Nothing 3 3 []", "revision 3 is deployed"},
		// Rule (helm.md#unchanged-releases-and-drift): `force-reconcile` always creates a revision.
		{"the user asks for it", "3 deployed us input", forced, "forced: Upgrade 3 4 []", "it is forced"},
		{"an upgrade repairs it", "3 deployed us input", drifted,
			"drifted: Upgrade 3 4 []", "objects of revision 3 have changed"},
		{"something else is wanted", "3 deployed us fedcba9876543210", nil,
			"outdated: Upgrade 3 4 []", "revision 3 was made from another chart, or with other values"},
		{"an HTTP hook changes what it did not change before", "3 deployed us input", func(w *Want) { w.Children = "abc" },
			"otherChildren: Upgrade 3 4 []", "revision 3 has other objects than the HTTP hook wants"},
		{"the hook is not asked now", "3 deployed us input", func(w *Want) { w.Children, w.AnyChildren = "abc", true },
			"current: Nothing 3 3 []", "revision 3 is deployed"},
		{"nobody else has a claim to it: it is adopted", "1 deployed - -", nil,
			"unowned: Upgrade 1 2 []", "revision 1 belongs to no deploy item yet"},
		{"it is another thing with the same name", "1 deployed - -", func(w *Want) { w.Chart = "shop" },
			"otherChart: Conflict 1 0 []",
			`it belongs to no deploy item and is of chart "", but the deploy item deploys chart "shop"`},
		{"the user says that it is to be taken", "1 deployed - -", func(w *Want) { w.Chart, w.TakeOwnership = "shop", true },
			"unowned: Upgrade 1 2 []", "revision 1 belongs to no deploy item yet"},
		{"the item has deployed it itself", "1 deployed - -", func(w *Want) { w.Chart, w.Claimed = "shop", true },
			"unowned: Upgrade 1 2 []", "revision 1 belongs to no deploy item yet"},
		{"what was uninstalled is nobody's concern", "1 uninstalled - -", func(w *Want) { w.Chart = "shop" },
			"uninstalled: Install 1 2 []", "revision 1 was uninstalled"},
		{"it was made for somebody, but is nobody's", "1 deployed - input", nil,
			"unowned: Upgrade 1 2 []", "revision 1 belongs to no deploy item yet"},
		{"Helm has copied the labels", "1 superseded us input; 2 deployed us -", nil,
			"changed: Upgrade 2 3 []", "revision 2 was made by another client"},
		{"the upgrade is tried again", "2 failed us input; 3 deployed us rolledback", nil,
			"reverted: Upgrade 3 4 []", "with revision 3 a failed upgrade was rolled back"},
		{"nobody works on it", "1 superseded us input; 2 failed us input; 3 pending-rollback us rolledback", nil,
			"interrupted: Upgrade 3 4 [3]", "revision 3 is pending-rollback"},
		{"the newest counts", "1 deployed us other; 2 deployed us input", nil,
			"current: Nothing 2 2 []", "revision 2 is deployed"},
		{"the one before does not count, because its objects may be half-changed",
			"1 deployed us input; 2 failed us other", nil,
			"failed: Upgrade 2 3 []", "revision 2 is failed"},
		{"what the hooks for the installation do was not done", "1 failed us input", nil,
			"neverDeployed: Install 1 2 []", "revision 1 is failed"},
		{"it is adopted like any other", "1 failed - -", nil, "neverDeployed: Install 1 2 []", "revision 1 is failed"},
		{"each attempt stays in the history", "1 failed us input; 2 failed us input", nil,
			"neverDeployed: Install 2 3 []", "revision 2 is failed, and none was ever deployed"},
		{"the hooks for the installation are done", "1 failed us input; 2 superseded us input; 3 failed us input", nil,
			"failed: Upgrade 3 4 []", "revision 3 is failed"},
		{"the newest one was deleted", "1 superseded us input", nil, "failed: Upgrade 1 2 []", "revision 1 is superseded"},
		{"nobody works on it", "1 deployed us input; 2 pending-upgrade us other", nil,
			"interrupted: Upgrade 2 3 [2]", "revision 2 is pending-upgrade"},
		{"there was no revision before", "1 pending-install us input", nil,
			"neverDeployed: Install 1 2 [1]", "revision 1 is pending-install"},
		{"of a failed atomic installation", "1 uninstalling us input", nil,
			"neverDeployed: Install 1 2 [1]", "revision 1 is uninstalling"},
		// Rule (helm.md#recovery): The deployer waits for an operation of another client.
		{"somebody may be working on it", "1 pending-install - -", nil,
			"busy: Wait 1 0 []",
			"another client's operation on the release: revision 1 is pending-install; " +
				"it counts as interrupted at 2026-01-02T03:08:05Z if nothing happens until then"},
		{"Helm has copied the labels", "1 superseded us input; 2 pending-rollback us -", nil,
			"busy: Wait 2 0 []", "another client's operation"},
		{"by somebody else", "1 uninstalling - -", nil, "busy: Wait 1 0 []", "another client's operation"},
		{"Helm would refuse it", "1 pending-install - -", forced, "busy: Wait 1 0 []", "another client's operation"},
		// Rule (helm.md#recovery): An operation of another client counts as interrupted five minutes after its last
		// activity.
		{"nobody works on it any more", "1 pending-install - - old", nil,
			"neverDeployed: Install 1 2 [1]", "revision 1 is pending-install"},
		{"the last moment counts", "1 pending-install - -", func(w *Want) { w.Now = until.Add(-1) },
			"busy: Wait 1 0 []", "another client's operation"},
		{"somebody has gone on from it, so it is marked at the next opportunity",
			"1 pending-install - -; 2 unknown - -; 3 deployed us other", nil,
			"outdated: Upgrade 3 4 [1 2]", "revision 3 was made from another chart"},
		{"that is no reason for an upgrade", "1 pending-install - -; 2 deployed us input", nil,
			"current: Nothing 2 2 []", "revision 2 is deployed"},
		{"nobody knows what it means", "1 paused - -", nil, "busy: Wait 1 0 []", "is paused"},
		{"nobody cares any more", "1 paused - - old", nil, "neverDeployed: Install 1 2 [1]", "revision 1 is paused"},
		{"two deploy items must not fight over it", "1 superseded us input; 7 deployed another input", forced,
			"foreign: Conflict 7 0 []",
			`it belongs to the deploy item "ns.another": delete that deploy item, or choose another name for the release; ` +
				`if there is no such deploy item any more, set helmDeploymentConfig.takeOwnership to true to take it over`},
		{"it is still that item's to mend", "1 failed another input", nil, "foreign: Conflict 1 0 []", "belongs to"},
		{"waiting would not help", "1 pending-install another input old", nil, "foreign: Conflict 1 0 []", "belongs to"},
		{"the user says that the other item is gone", "7 deployed another input", takenOver,
			"taken: Upgrade 7 8 [] taken", `revision 7 belongs to the deploy item "ns.another"`},
		{"whoever works on it is let alone", "1 pending-install another input", takenOver,
			"busy: Wait 1 0 []", "another client's operation"},
		{"there is nothing to take", "3 deployed us input", takenOver, "current: Nothing 3 3 []", "revision 3 is deployed"},
		{"the newest counts", "1 superseded another input; 2 deployed us input", nil,
			"current: Nothing 2 2 []", "revision 2 is deployed"},
		{"its name is free", "1 superseded us -; 2 uninstalled us input", nil,
			"uninstalled: Install 2 3 []", "revision 2 was uninstalled"},
		{"whoever has kept its history", "1 pending-install another - old; 2 uninstalled another input", nil,
			"uninstalled: Install 2 3 [1]", "revision 2 was uninstalled"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			want := wanted()
			if c.change != nil {
				c.change(&want)
			}
			history := revisions(t, c.history)
			got := Decide(history, want)
			found := fmt.Sprint(stateOf(history, want), ": ", got.Action, " ", got.Newest, " ", got.Revision, " ",
				got.Interrupted)
			if strings.Contains(got.TakenFrom, another) {
				found += " taken"
			}
			if found != c.want || !strings.Contains(got.Why, c.why) || (got.Action == Wait) != got.Until.Equal(until) {
				t.Errorf("expected %s because %q, but found %s: %+v", c.want, c.why, found, got)
			}
		})
	}
}

// TestRenderedAs: templates see what Helm tells them when it does what was decided.
func TestRenderedAs(t *testing.T) {
	t.Parallel()
	for want, d := range map[int]Decision{
		1: {Action: Install, Newest: 4, Revision: 5}, 2: {Action: Upgrade, Newest: 1, Revision: 2},
		3: {Action: Nothing, Newest: 3, Revision: 3}, 4: {Action: Wait, Newest: 3}, 5: {Action: Conflict, Newest: 4},
	} {
		if got := d.RenderedAs(); got != want {
			t.Errorf("%s: expected %d, but found %d", d.Action, want, got)
		}
	}
}

func TestDecideRemoval(t *testing.T) {
	t.Parallel()
	claimed, heir := func(w *Want) { w.Claimed = true }, func(w *Want) { w.Heir = another }
	for _, c := range []struct {
		reason, history string
		change          func(*Want)
		want            string // the state and the action
	}{
		// Rule (helm.md#deletion): A release that a living item with the same chart needs goes to that one.
		{"no outage", "1 deployed us input", heir, "claimed: Bequeath"},
		{"its objects are at work", "1 deployed us input; 2 failed us input", heir, "claimed: Bequeath"},
		{"there is nothing to keep", "1 failed us input", heir, "owned: Uninstall"},
		{"half of it is gone", "1 superseded us input; 2 uninstalling us input", heir, "owned: Uninstall"},
		{"it is not the item's", "1 deployed another input", heir, "foreign: Leave"},
		{"it is gone", "", nil, "absent: Nothing"},
		{"it goes with its item", "1 deployed us input", nil, "owned: Uninstall"},
		{"whoever has upgraded it", "2 deployed us -", nil, "owned: Uninstall"},
		{"nothing is left of a failure", "1 failed us input", nil, "owned: Uninstall"},
		{"nobody works on it", "1 pending-install us input", nil, "owned: Uninstall"},
		// Rule (helm.md#recovery): An interrupted deletion is continued.
		{"it is half removed", "1 uninstalling us input", nil, "owned: Uninstall"},
		{"its history goes, too", "1 uninstalled us input", nil, "owned: Uninstall"},
		{"somebody else works on it", "2 pending-rollback us -", nil, "busy: Wait"},
		{"nobody works on it any more", "2 pending-rollback us - old", nil, "owned: Uninstall"},
		// Rule (helm.md#deletion): A release of another item is not touched.
		{"it goes with that item", "1 deployed another input", claimed, "foreign: Leave"},
		{"not at any time", "1 pending-install another input old", nil, "foreign: Leave"},
		// Rule (helm.md#deletion): A release of no item is not touched.
		{"the item has not made it", "1 deployed - -", nil, "unowned: Leave"},
		{"Landscaper has made it for the item", "1 deployed - -", claimed, "owned: Uninstall"},
		{"somebody works on what is nobody's", "1 pending-upgrade - -", claimed, "busy: Wait"},
		{"who has kept the history wants it", "1 uninstalled - -", claimed, "uninstalled: Nothing"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			want, history := wanted(), revisions(t, c.history)
			if c.change != nil {
				c.change(&want)
			}
			got := DecideRemoval(history, want)
			found := fmt.Sprint(stateAtRemoval(history, want), ": ", got.Action)
			if found != c.want || got.Why == "" || (got.Action == Wait) != got.Until.After(now) {
				t.Errorf("expected %s, but found %s: %+v", c.want, found, got)
			}
			var marked []int // Helm refuses to remove what is in progress
			if got.Action == Uninstall {
				marked = unsettled(history)
			}
			if diff := cmp.Diff(marked, got.Interrupted); diff != "" {
				t.Errorf("to be marked: -want +got:\n%s", diff)
			}
		})
	}
}

// TestBequeathed: the heir finds a release of its own, and learns once from whom it is. A release of another item names
// that one.
func TestBequeathed(t *testing.T) {
	t.Parallel()
	newest := revision(1, StatusDeployed, us, input)
	newest.Bequeather = another
	want := wanted()
	d := Decide([]Revision{newest}, want)
	if d.Action != Nothing || !strings.Contains(d.TakenFrom, another) || d.HeldBy != "" {
		t.Errorf("expected an up-to-date release, but found %+v", d)
	}
	want.Claimed = true
	if d := Decide([]Revision{newest}, want); d.TakenFrom != "" {
		t.Errorf("expected that it is the item's by now, but found %+v", d)
	}
	d = Decide([]Revision{revision(1, StatusDeployed, another, input)}, want)
	if d.Action != Conflict || d.HeldBy != another {
		t.Errorf("expected the holder, but found %+v", d)
	}
}

// TestRetryOf: a job makes its own failed attempt again, also if that was rolled back.
func TestRetryOf(t *testing.T) {
	t.Parallel()
	of := func(job string, r Revision) Revision {
		r.Job = job
		return r
	}
	first := of("before", revision(1, StatusDeployed, us, "another"))
	failed, back := of("job", revision(2, StatusFailed, us, input)), of("job", revision(3, StatusDeployed, us, RolledBack))
	halves := of("job", revision(3, StatusPendingRollback, us, RolledBack))
	for name, c := range map[string]struct {
		history []Revision
		want    int
	}{
		"failed":                     {[]Revision{first, failed}, 2},
		"rolled back":                {[]Revision{first, failed, back}, 2},
		"rolled back by halves":      {[]Revision{first, failed, halves}, 2},
		"of another job":             {[]Revision{first, of("before", failed)}, 0},
		"rolled back in another":     {[]Revision{first, failed, of("before", back)}, 0},
		"with another input":         {[]Revision{first, of("job", revision(2, StatusFailed, us, "another")), back}, 0},
		"rolled back by the CLI":     {[]Revision{first, failed, revision(3, StatusDeployed, us, "")}, 0},
		"of an item of another name": {[]Revision{first, of("job", revision(2, StatusFailed, another, input))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := wanted()
			want.Job = "job"
			if got := Decide(c.history, want).Retry; got != c.want {
				t.Errorf("expected that revision %d is made again, but found %d", c.want, got)
			}
		})
	}
}

// TestInstallations: a deploy item of the same name in another installation is another one, unless the user or a
// restored status says that it is not.
func TestInstallations(t *testing.T) {
	t.Parallel()
	const here, there = "here", "there"
	restored := func(version int) func(*Want) {
		return func(w *Want) { w.Restored = Restored{there, version} }
	}
	accepted := func(w *Want) { w.TakeOverFrom = there }
	for name, c := range map[string]struct {
		by, in  string
		change  func(*Want)
		want    Action
		removal Action
		of      owner.Relation
	}{
		"of here":                    {us, here, nil, Nothing, Uninstall, owner.Ours},
		"of before there were marks": {us, "", nil, Nothing, Uninstall, owner.Ours},
		"of there":                   {us, there, nil, Conflict, Leave, owner.Foreign},
		"nobody knows where we are":  {us, there, func(w *Want) { w.Installation = "" }, Nothing, Uninstall, owner.Ours},
		"the user says so":           {us, there, accepted, Upgrade, Uninstall, owner.Ours},
		"of another item there":      {another, there, accepted, Conflict, Leave, owner.Foreign},
		"the user gives it to us":    {us, there, func(w *Want) { w.TakeOwnership = true }, Upgrade, Leave, owner.Foreign},
		"restored":                   {us, there, restored(7), Upgrade, Uninstall, owner.Ours},
		"changed there since":        {us, there, restored(6), Conflict, Leave, owner.Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newest := revision(7, StatusDeployed, c.by, input)
			newest.Installation = c.in
			want := wanted()
			want.Installation = here
			if c.change != nil {
				c.change(&want)
			}
			history := []Revision{newest}
			got, removal, of := Decide(history, want), DecideRemoval(history, want), Of(history, want)
			if got.Action != c.want || removal.Action != c.removal || of != c.of {
				t.Errorf("expected %s, %s, %d, but found %+v, %+v, %d", c.want, c.removal, c.of, got, removal, of)
			}
			if isTaken := strings.Contains(got.TakenFrom, "of the installation there"); isTaken != (c.want == Upgrade) {
				t.Errorf("expected to be told from whom it is taken, but found %+v", got)
			}
			namesWay := strings.Contains(got.Why, owner.TakeOverAnnotation+`: "there"`)
			if namesWay != (c.want == Conflict && c.by == us) {
				t.Errorf("expected the way out, but found %s", got.Why)
			}
		})
	}
}

func TestExistsAndOf(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		exists bool
		of     owner.Relation
	}{
		"": {false, owner.Nobodys},
		"1 failed another -; 2 pending-upgrade us -": {true, owner.Ours},
		"1 deployed us input; 2 deployed another -":  {true, owner.Others},
		"1 deployed us input; 2 failed - -":          {true, owner.Nobodys},
		"1 superseded us input; 2 uninstalled us -":  {false, owner.Ours},
	} {
		history := revisions(t, text)
		if exists, of := Exists(history), Of(history, wanted()); exists != c.exists || of != c.of {
			t.Errorf("%q: expected %t and %d, but found %t and %d", text, c.exists, c.of, exists, of)
		}
	}
}

func ExampleDecide() {
	made := Input([]byte("chart"), []byte(`{"replicas":1}`))
	history := []Revision{{Version: 1, Status: StatusDeployed, Item: "shops.shop", Input: made}}
	d := Decide(history, Want{Item: "shops.shop", Input: Input([]byte("chart"), []byte(`{"replicas":2}`))})
	fmt.Println(d.Action, d.Revision, "because", d.Why)
	// Output: Upgrade 2 because revision 1 was made from another chart, or with other values
}
