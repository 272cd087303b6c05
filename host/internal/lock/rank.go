package lock

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// electionKey is the key whose preferred replica is the elected one.
const electionKey = "host.pergola.dev/elected"

// Member is a replica that is alive. The status page shows it as JSON.
type Member struct {
	PodName string `json:"pod"`
	// Self reports whether it is this one, and Leaving whether it is about to stop.
	Self    bool `json:"self,omitempty"`
	Leaving bool `json:"leaving,omitempty"`
	// Plugins that it serves, in order of their names.
	Plugins []string `json:"plugins,omitempty"`
}

// Members are the replicas of this one's group that are alive, this one included, in order of their names. Different
// replicas may see different ones for a moment.
func (r *Replicas) Members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alive()
}

// Rank is the place of this replica for a key of a plugin, among those of its group that serve the plugin and are
// alive: 0 if the key prefers it. Those that leave come last. A replica that does not serve the plugin itself comes
// after all that do; with none of these it has place 0, too.
func (r *Replicas) Rank(plugin, key string) int { return place(serving(r.Members(), plugin), key) }

// Servers is how many replicas of this one's group serve a plugin and are alive, this one included.
func (r *Replicas) Servers(plugin string) int { return len(serving(r.Members(), plugin)) }

// Elected reports whether this replica is the one of its group for what is to be done once. All replicas that see the
// same agree on one that is alive and does not leave. While their views differ there may be two of them, or none: it
// suits work that does no harm when it is done twice.
func (r *Replicas) Elected() bool { return r.Valid() && elected(r.Members(), electionKey) }

// ElectedFor reports whether this replica is the one for what is to be done once for a plugin, as Elected does, among
// those of its group that serve the plugin. Plugins may have different ones. For a plugin that nobody serves it is the
// one of Elected.
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

// place is how many of some members come before the own one for a key; all of them if it is not among them.
func place(members []Member, key string) int {
	ranked := slices.SortedFunc(slices.Values(members), func(a, b Member) int { return a.compare(b, key) })
	own := slices.IndexFunc(ranked, func(m Member) bool { return m.Self })
	if own < 0 {
		return len(ranked)
	}
	return own
}

// compare is negative if a key prefers a member to another one: those that leave come last, and names break a tie.
func (m Member) compare(other Member, key string) int {
	switch {
	case m.Leaving && !other.Leaving:
		return 1
	case other.Leaving && !m.Leaving:
		return -1
	}
	return cmp.Or(cmp.Compare(score(other.PodName, key), score(m.PodName, key)), cmp.Compare(m.PodName, other.PodName))
}

// score is how much a key prefers a replica. It is the same in all replicas, so it must not change from one version to
// the next.
func score(podName, key string) uint64 {
	sum := sha256.Sum256([]byte(podName + "\x00" + key))
	return binary.BigEndian.Uint64(sum[:])
}
