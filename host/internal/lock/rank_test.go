package lock

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
)

// seenBy returns members as one of them sees them.
func seenBy(podName string, all []Member) []Member {
	view := slices.Clone(all)
	for i := range view {
		view[i].Self = view[i].PodName == podName
	}
	return view
}

// places is the place for a key of each member that serves "helm", as it sees it.
func places(all []Member, key string) map[string]int {
	at := map[string]int{}
	for _, m := range all {
		if slices.Contains(m.Plugins, "helm") {
			at[m.PodName] = place(serving(seenBy(m.PodName, all), "helm"), key)
		}
	}
	return at
}

func preferred(all []Member, key string) string {
	for podName, at := range places(all, key) {
		if at == 0 {
			return podName
		}
	}
	return ""
}

// TestRank: those that serve a plugin have a place each, those that leave come last and the others after them; a
// replica that comes or goes moves only the keys that prefer it. The first one is elected, unless it leaves.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Member
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`host-[a-z0-9]{1,5}`), 2, 8,
			rapid.ID[string]).Draw(t, "names") {
			all = append(all, Member{
				PodName: name, Leaving: rapid.Bool().Draw(t, name+" leaves"),
				Plugins: rapid.SampledFrom([][]string{{"helm"}, {"container", "helm"}, {"container"}, nil}).Draw(t, name+" serves"),
			})
		}
		key := rapid.String().Draw(t, "key")
		at, byPlace := places(all, key), map[int]Member{}
		for _, m := range all {
			if own, serves := at[m.PodName]; serves {
				byPlace[own] = m
				if elected(serving(seenBy(m.PodName, all), "helm"), key) != (own == 0 && !m.Leaving) {
					t.Fatalf("%s has place %d: leaves %t, but its election says otherwise", m.PodName, own, m.Leaving)
				}
			} else if elected(serving(seenBy(m.PodName, all), "helm"), key) {
				t.Fatalf("%s does not serve the plugin and is elected", m.PodName)
			} else if got := place(serving(seenBy(m.PodName, all), "helm"), key); got != len(at) {
				t.Fatalf("%s does not serve the plugin and has place %d after %d that do", m.PodName, got, len(at))
			}
		}
		if len(byPlace) != len(at) {
			t.Fatalf("%d replicas have %d places", len(at), len(byPlace))
		}
		for i := 1; i < len(at); i++ {
			if byPlace[i-1].Leaving && !byPlace[i].Leaving {
				t.Fatalf("a replica that leaves comes before one that stays: %v", byPlace)
			}
		}
		with, without := preferred(all, key), preferred(all[1:], key)
		if with != all[0].PodName && with != without {
			t.Fatalf("key %q is moved from %s to %s by %s", key, without, with, all[0].PodName)
		}
	})
}

// TestScore keeps the hash from changing: replicas of different versions must agree.
func TestScore(t *testing.T) {
	if got, want := score("pergola-0", "namespace/item"), uint64(0xa8273dd264ab6bb9); got != want {
		t.Errorf("expected %#x, but found %#x", want, got)
	}
}

// TestMembers: a replica shares its work with those of its group that are alive, and is told from their Leases what
// they serve and whether they leave.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		of := func(group, plugins, leaving string) func(*coordinationv1.Lease) {
			return func(l *coordinationv1.Lease) {
				l.Labels[hostlease.Label] = groupLabel(group)
				l.Annotations = map[string]string{annotationPlugins: plugins, annotationLeaving: leaving}
			}
		}
		for _, name := range []string{"me", "serves", "leaves", "elsewhere", "silent", "ended"} {
			w.pod(name)
		}
		me := w.replica("me")
		stop := me.run()
		me.Serve([]string{"helm"})
		w.lease("serves", "serves/1", of("", "container,helm", ""))
		w.lease("leaves", "leaves/1", of("", "container", "true"))
		w.lease("elsewhere", "elsewhere/1", of("other", "helm,lonely", ""))
		w.lease("ended", "", of("", "helm", ""))
		w.lease("silent", "silent/1", of("", "helm", ""))
		me.see()
		passTime(leaseDuration)
		w.lease("serves", "serves/1", of("", "container,helm", ""))
		w.lease("leaves", "leaves/1", of("", "container", "true"))
		me.see()
		want := []Member{
			{PodName: "leaves", Leaving: true, Plugins: []string{"container"}},
			{PodName: "me", Self: true, Plugins: []string{"helm"}},
			{PodName: "serves", Plugins: []string{"container", "helm"}},
		}
		if diff := cmp.Diff(want, me.Members()); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
		for plugin, servers := range map[string]int{"helm": 2, "container": 2, "lonely": 0} {
			if got := me.Servers(plugin); got != servers {
				t.Errorf("expected %d to serve %s, but found %d", servers, plugin, got)
			}
		}
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			if got, want := me.Rank("helm", key), place(serving(want, "helm"), key); got != want {
				t.Errorf("key %s: expected place %d, but found %d", key, want, got)
			}
		}
		if !me.OthersServeMore() {
			t.Error("another replica has a plugin that this one has not")
		}
		w.lease("serves", "serves/1", of("", "helm", ""))
		w.lease("leaves", "leaves/1", of("", "", ""))
		me.see()
		if !me.OthersServeMore() {
			t.Error("another replica is starting, with any plugins")
		}
		w.lease("leaves", "leaves/1", of("", "helm", ""))
		me.see()
		if me.OthersServeMore() {
			t.Error("no replica has a plugin that this one has not")
		}
		w.lease("serves", "serves/1", of("", "container,helm", ""))
		w.lease("leaves", "leaves/1", of("", "container", "true"))
		me.see()
		if me.ElectedFor("container") || me.ElectedFor("lonely") != me.Elected() ||
			me.ElectedFor("helm") != elected(serving(want, "helm"), electionKey+"/helm") ||
			me.Elected() != elected(want, electionKey) {
			t.Error("another one is elected than among the members")
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if me.Elected() || me.ElectedFor("helm") {
			t.Error("a replica is elected that has ended")
		}
	})
}
