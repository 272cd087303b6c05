package replica

import (
	"cmp"
	"slices"
	"strings"
)

// electionKey is the key whose preferred replica is the elected one.
const electionKey = "host.pergola.dev/elected"

// member is a replica that takes part in sharing the work.
type member struct {
	podName string
	leaving bool
	plugins string // those that it serves, as joinPlugins writes them
}

func compareMembers(a, b member) int { return cmp.Compare(a.podName, b.podName) }

// joinPlugins writes the names of plugins so that those that are the same look the same.
func joinPlugins(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// splitPlugins reads what joinPlugins has written.
func splitPlugins(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}

// members are the replicas of a group that are alive, the own one among them. It is not changed once it is made.
type members struct {
	self    member
	all     []member // in the order of their names
	servers map[string][]member
}

func newMembers(self member, others []member) *members {
	m := &members{self: self, all: append([]member{self}, others...), servers: map[string][]member{}}
	slices.SortFunc(m.all, compareMembers)
	for _, one := range m.all {
		for _, plugin := range splitPlugins(one.plugins) {
			m.servers[plugin] = append(m.servers[plugin], one)
		}
	}
	return m
}

func (m *members) equal(other *members) bool {
	return m.self == other.self && slices.Equal(m.all, other.all)
}

// serves tells whether the own replica serves a plugin.
func (m *members) serves(plugin string) bool { return slices.Contains(m.servers[plugin], m.self) }

// rank is how many members that serve a plugin come before the own one for a key; all of them if it does not serve the plugin itself.
func (m *members) rank(plugin, key string) int {
	servers := m.servers[plugin]
	if !slices.Contains(servers, m.self) {
		return len(servers)
	}
	return m.place(servers, key)
}

// place is how many of some members, the own one among them, come before it for a key.
func (m *members) place(among []member, key string) int {
	own, before := score(m.self.podName, key), 0
	for _, other := range among {
		if other != m.self && other.before(score(other.podName, key), m.self, own) {
			before++
		}
	}
	return before
}

// before tells whether a member comes before another one, given the scores of both: those that leave come last, and names break a tie.
func (m member) before(score uint64, other member, otherScore uint64) bool {
	if m.leaving != other.leaving {
		return !m.leaving
	}
	return cmp.Or(cmp.Compare(otherScore, score), cmp.Compare(m.podName, other.podName)) < 0
}

// score is how much a key prefers a replica: FNV-1a of both, whose bits are then mixed as in MurmurHash3, because names of
// pods and keys differ in few characters. It is the same in all replicas, so it must not change from one version to the next.
func score(podName, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(podName) {
		h = (h ^ uint64(podName[i])) * prime
	}
	h *= prime // a zero byte ends the name, so that no part of it can be taken for one of the key
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
