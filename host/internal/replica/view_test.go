package replica

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestMembers(t *testing.T) {
	cases := map[string]struct {
		reason string
		world  func(*world)
		want   int // members
	}{
		"alone": {"a replica counts itself", func(*world) {}, 1},
		"two":   {"a replica of the group", func(w *world) { w.replica("a") }, 2},
		"other group": {"it shares other work", func(w *world) {
			w.replica("a", func(l *coordinationv1.Lease) { l.Labels[LabelGroup] = GroupLabel("h") })
		}, 1},
		"no pod yet": {"the watches of pods and Leases are not in step", func(w *world) { w.lease("a", "a/1"); w.see("a") }, 2},
		"no pod":     {"a Lease can outlive its pod", func(w *world) { w.lease("a", "a/1"); w.see("a"); w.find() }, 1},
		"deleted":    {"its pod is gone", func(w *world) { deleted(w); w.find() }, 1},
		"given back": {"it has ended", givenBack, 1},
		"expired":    {"it is dead", expired, 1},
		"back":       {"it was only cut off", func(w *world) { expired(w); w.lease("a", "a/1"); w.see("a") }, 2},
		"restarted":  {"another process of the same pod", restarted, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.world(w)
			if got := len(w.Members()); got != tc.want {
				t.Errorf("%s: expected %d members, but found %d", tc.reason, tc.want, got)
			}
		})
	}
}

func TestLeavingRanksLast(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	w := newWorld()
	w.replica("a", func(l *coordinationv1.Lease) { l.Annotations[annotationLeaving] = "true" })
	for _, key := range keys {
		if w.Rank(plugin, key) != 0 {
			t.Errorf("key %s prefers a replica that leaves", key)
		}
	}
	if !w.Elected() {
		t.Error("a replica that leaves is elected")
	}
	w.lease("a", "a/1")
	w.see("a")
	w.tellings()
	w.feed.Leaving()
	w.expectTold(t, "the ranks have changed", "changed")
	for _, key := range keys {
		if w.Rank(plugin, key) != 1 {
			t.Errorf("key %s prefers this replica, which leaves", key)
		}
	}
	w.lease("a", "")
	w.see("a")
	if w.Elected() {
		t.Error("this replica is elected although it leaves")
	}
}

func TestPluginsDecideTheRank(t *testing.T) {
	serving := func(plugins string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Annotations[AnnotationPlugins] = plugins }
	}
	for name, tc := range map[string]struct {
		reason      string
		own         []string
		a, b        string
		first, last int // the places that occur
		elected     bool
	}{
		"all":          {"the keys are spread", []string{plugin}, plugin, plugin, 0, 2, false},
		"alone":        {"nobody else serves it", []string{plugin}, "container", "", 0, 0, true},
		"one of two":   {"those who do not serve it do not count", []string{"x", plugin}, "container," + plugin, "container", 0, 1, false},
		"others":       {"who does not serve it comes after those that do", []string{"container"}, plugin, plugin, 2, 2, false},
		"another":      {"who does not serve it comes after the one that does", nil, plugin, "", 1, 1, false},
		"nobody":       {"nobody comes before", nil, "", "", 0, 0, false},
		"part of name": {"plugins are told apart by their whole names", []string{plugin}, plugin + "x", "x" + plugin, 0, 0, true},
		"twice":        {"a replica counts once", nil, plugin + "," + plugin, ",", 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.replica("a", serving(tc.a))
			w.replica("b", serving(tc.b))
			w.feed.Serving(tc.own)
			first, last := 2, 0
			for i := range 100 {
				rank := w.Rank(plugin, strconv.Itoa(i))
				first, last = min(first, rank), max(last, rank)
			}
			if first != tc.first || last != tc.last {
				t.Errorf("%s: places from %d to %d, but not from %d to %d", tc.reason, first, last, tc.first, tc.last)
			}
			if got := w.ElectedFor(plugin); tc.elected && !got || got && tc.first > 0 {
				t.Errorf("%s: elected %t, with places from %d", tc.reason, got, first)
			}
		})
	}
}

func TestServers(t *testing.T) {
	w := newWorld()
	for _, tc := range []struct {
		reason string
		happen func()
		want   int
	}{
		{"nobody serves it", func() { w.feed.Serving(nil) }, 0},
		{"this replica does", func() { w.feed.Serving([]string{plugin}) }, 1},
		{"another one does, too", func() {
			w.replica("a", func(l *coordinationv1.Lease) { l.Annotations[AnnotationPlugins] = plugin + ",other" })
		}, 2},
		{"a third one serves something else", func() {
			w.replica("b", func(l *coordinationv1.Lease) { l.Annotations[AnnotationPlugins] = "other" })
		}, 2},
		{"the other one is dead", func() { w.lease("a", ""); w.see("a") }, 1},
	} {
		tc.happen()
		if got := w.Servers(plugin); got != tc.want {
			t.Errorf("%s: expected %d, but found %d", tc.reason, tc.want, got)
		}
	}
}

func TestMembersTellWhatTheyServe(t *testing.T) {
	w := newWorld()
	w.feed.Serving([]string{"b", "a"})
	w.replica("another", func(l *coordinationv1.Lease) {
		l.Annotations[AnnotationPlugins], l.Annotations[annotationLeaving] = "c", "true"
	})
	want := []Member{{PodName: "another", Leaving: true, Plugins: []string{"c"}}, {PodName: w.PodName(), Self: true, Plugins: []string{"a", "b"}}}
	if diff := cmp.Diff(want, w.Members()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

func TestElectedFor(t *testing.T) {
	w := newWorld()
	if !w.ElectedFor(plugin) || !w.ElectedFor("nobody's") {
		t.Error("who is alone is not elected for everything")
	}
	w.replica("a", func(l *coordinationv1.Lease) { l.Annotations[AnnotationPlugins] = "other" })
	if !w.ElectedFor(plugin) || w.ElectedFor("other") {
		t.Error("not elected for what it serves, or for what it does not serve")
	}
	if w.ElectedFor("nobody's") != w.Elected() {
		t.Error("the elected one has to do with plugins that nobody serves")
	}
	w = newWorld()
	w.feed.Leaving()
	if w.ElectedFor(plugin) {
		t.Error("who leaves is elected")
	}
	w = newWorld()
	w.feed.Ended()
	if w.ElectedFor(plugin) {
		t.Error("who is not valid is elected")
	}
}

func TestChangesOfPluginsAreTold(t *testing.T) {
	w := newWorld()
	w.replica("a")
	w.tellings()
	w.feed.Serving([]string{plugin, "container", plugin})
	w.expectTold(t, "this replica serves one more", "changed")
	w.feed.Serving([]string{"container", plugin})
	w.expectTold(t, "it serves the same")
	w.lease("a", "a/1", func(l *coordinationv1.Lease) { l.Annotations[AnnotationPlugins] = "container" })
	w.see("a")
	w.expectTold(t, "the other one serves something else", "changed")
	w.lease("a", "a/1", func(l *coordinationv1.Lease) { l.Annotations[AnnotationPlugins] = "container" })
	w.see("a")
	w.expectTold(t, "it is only renewed")
}

func TestValidity(t *testing.T) {
	w := newWorld()
	w.clock.SetTime(noon.Add(duration*2/3 - 1))
	w.feed.CheckValidity()
	if !w.Valid() || !w.Elected() {
		t.Error("not valid for two thirds of the duration")
	}
	w.expectTold(t, "it has not lapsed")

	w.clock.SetTime(noon.Add(duration * 2 / 3))
	if w.Valid() || w.Elected() {
		t.Error("valid for more than two thirds of the duration")
	}
	w.feed.CheckValidity()
	w.feed.CheckValidity()
	w.expectTold(t, "it has lapsed", "lapsed, valid false")

	w.feed.Renewed(noon.Add(time.Second))
	w.expectTold(t, "what was begun so early lasts until a second from now", "renewed, valid true")
	w.clock.SetTime(noon.Add(duration*2/3 + time.Second))
	if w.Valid() {
		t.Error("a renewal counts from its end, and not from its beginning")
	}
	w.feed.Renewed(noon.Add(time.Second))
	w.expectTold(t, "a renewal that came too late", "lapsed, valid false")
}

// TestPauseIsTold has a replica that was stopped renewed before anything else happens.
func TestPauseIsTold(t *testing.T) {
	w := newWorld()
	w.clock.SetTime(noon.Add(time.Hour))
	w.feed.Renewed(noon.Add(time.Hour))
	if w.Valid() {
		t.Error("valid before the listeners heard that locks were lost")
	}
	w.expectTold(t, "locks were lost meanwhile", "lapsed, valid false", "renewed, valid true")
}

// TestTwoPausesAreTold has it stopped twice before the listeners hear of the first time.
func TestTwoPausesAreTold(t *testing.T) {
	w := newWorld()
	for _, pause := range []time.Duration{time.Hour, 2 * time.Hour} {
		w.clock.SetTime(noon.Add(pause))
		w.feed.Renewed(w.clock.Now())
	}
	w.expectTold(t, "not valid before the last lapse is told",
		"lapsed, valid false", "renewed, valid false", "lapsed, valid false", "renewed, valid true")
}

func TestReplacedIsNeverValidAgain(t *testing.T) {
	w := newWorld()
	w.feed.Replaced()
	w.feed.Replaced()
	w.feed.Renewed(noon)
	if w.Valid() {
		t.Error("valid although it was replaced")
	}
	w.expectTold(t, "locks are lost", "lapsed, valid false")
	select {
	case <-w.replaced:
	default:
		t.Error("it is not known that it was replaced")
	}
}

func TestOwnPod(t *testing.T) {
	cases := map[string]struct {
		reason string
		happen func(*world)
		want   bool // replaced
	}{
		"gone":    {"without a pod there is no replica", func(w *world) { delete(w.pods, "me"); w.feed.PodMissing("me") }, true},
		"unseen":  {"the watch is wrong", func(w *world) { w.feed.PodMissing("me") }, false},
		"another": {"a pod of the same name has come", func(w *world) { delete(w.pods, "me"); w.feed.PodSeen("me", "other-uid") }, true},
		"before":  {"the watch is late, and shows the pod before", func(w *world) { w.feed.PodSeen("me", "other-uid") }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.happen(w)
			w.find()
			if w.Valid() == tc.want {
				t.Errorf("%s: valid %t", tc.reason, w.Valid())
			}
		})
	}
}

// TestOwnLapseRestartsTheTimeOfOthers has the API server away for everybody: the first that reaches it again must not take the others
// for dead.
func TestOwnLapseRestartsTheTimeOfOthers(t *testing.T) {
	w := newWorld()
	w.replica("a")
	w.tellings()
	w.clock.SetTime(noon.Add(time.Hour))
	w.lookAtAll()
	if question, _ := w.feed.Next("a"); w.Verdict("a", "a/1") != Alive || question != AskLease {
		t.Errorf("who is not valid itself finds %s, and asks %d", w.Verdict("a", "a/1"), question)
	}
	w.feed.Renewed(w.clock.Now())
	w.tellings()
	w.lookAtAll()
	if w.Verdict("a", "a/1") != Alive {
		t.Error("dead without having had time to renew")
	}
	if question, wait := w.feed.Next("a"); question != Nothing || wait != duration {
		t.Errorf("asks %d, and waits %s", question, wait)
	}
	w.pass(justExpired)
	if w.Verdict("a", "a/1") != Dead {
		t.Error("not dead although it had time to renew")
	}
}
