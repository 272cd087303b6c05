package replica

import (
	"cmp"
	"slices"
)

// electionKey is the key whose preferred replica is the elected one.
const electionKey = "host.pergola.dev/elected"

// member is a replica that takes part in sharing the work.
type member struct {
	podName string
	leaving bool
}

func compareMembers(a, b member) int { return cmp.Compare(a.podName, b.podName) }

// members are the replicas of a group that are alive, the own one among them. It is not changed once it is made.
type members struct {
	self member
	all  []member // in the order of their names
}

func newMembers(self member, others []member) *members {
	all := append([]member{self}, others...)
	slices.SortFunc(all, compareMembers)
	return &members{self: self, all: all}
}

func (m *members) equal(other *members) bool {
	return m.self == other.self && slices.Equal(m.all, other.all)
}

// rank is how many members come before the own one for a key.
func (m *members) rank(key string) int {
	own, before := score(m.self.podName, key), 0
	for _, other := range m.all {
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
