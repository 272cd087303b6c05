package lock

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// electionKey is a key; the replica preferred by it is the elected one.
const electionKey = "host.pergola.dev/elected"

// Member is a live replica. The status page shows it as JSON.
type Member struct {
	PodName string `json:"pod"`
	// Self marks this replica, Leaving one that is about to stop.
	Self    bool `json:"self,omitempty"`
	Leaving bool `json:"leaving,omitempty"`
	// Plugins are the served plugins, in order of their names.
	Plugins []string `json:"plugins,omitempty"`
}

// Members are the live replicas of the own group, this one included, in order of their names. Different replicas may
// see different ones for a moment.
func (r *Replicas) Members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alive()
}

// Rank is the place of this replica for a key of a plugin, among the live replicas of its group with the plugin: 0 if
// the key prefers it. Leaving replicas come last. A replica without the plugin ranks after all replicas with it, or 0
// if there are none.
func (r *Replicas) Rank(plugin, key string) int { return place(serving(r.Members(), plugin), key) }

// Servers is the number of live replicas of the own group with a plugin, this one included.
func (r *Replicas) Servers(plugin string) int { return len(serving(r.Members(), plugin)) }

// OthersServeMore reports whether another live replica of the own group may have plugins that this one has not: one
// without any is starting.
func (r *Replicas) OthersServeMore() bool {
	members := r.Members()
	own := members[slices.IndexFunc(members, func(m Member) bool { return m.Self })].Plugins
	return slices.ContainsFunc(members, func(m Member) bool {
		lacks := func(plugin string) bool { return !slices.Contains(own, plugin) }
		return len(m.Plugins) == 0 || slices.ContainsFunc(m.Plugins, lacks)
	})
}

// Elected reports whether this replica does the work that its group does once. Replicas with the same view agree on a
// live one that does not leave. While their views differ there may be two of them, or none: it suits work without harm
// when done twice.
func (r *Replicas) Elected() bool { return r.Valid() && elected(r.Members(), electionKey) }

// ElectedFor reports, as Elected does, whether this replica does the work that is done once for a plugin, among the
// replicas of its group with the plugin. Plugins may have different ones. For a plugin without replicas it is Elected.
func (r *Replicas) ElectedFor(plugin string) bool {
	servers := serving(r.Members(), plugin)
	if len(servers) == 0 {
		return r.Elected()
	}
	return r.Valid() && elected(servers, electionKey+"/"+plugin)
}

func serving(members []Member, plugin string) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !slices.Contains(m.Plugins, plugin) })
}

// elected reports whether the own replica comes first for a key, and does not leave.
func elected(members []Member, key string) bool {
	return place(members, key) == 0 && slices.ContainsFunc(members, func(m Member) bool { return m.Self && !m.Leaving })
}

// place is the number of members before the own one for a key; all of them if it is not among them.
func place(members []Member, key string) int {
	ranked := slices.SortedFunc(slices.Values(members), func(a, b Member) int { return a.compare(b, key) })
	own := slices.IndexFunc(ranked, func(m Member) bool { return m.Self })
	if own < 0 {
		return len(ranked)
	}
	return own
}

// compare is negative if a key prefers a member to another one: leaving members come last, and names break a tie.
func (m Member) compare(other Member, key string) int {
	switch {
	case m.Leaving && !other.Leaving:
		return 1
	case other.Leaving && !m.Leaving:
		return -1
	}
	return cmp.Or(cmp.Compare(score(other.PodName, key), score(m.PodName, key)), cmp.Compare(m.PodName, other.PodName))
}

// score is the preference of a key for a replica. All replicas must compute the same, so it must not change from one
// version to the next.
func score(podName, key string) uint64 {
	sum := sha256.Sum256([]byte(podName + "\x00" + key))
	return binary.BigEndian.Uint64(sum[:])
}
