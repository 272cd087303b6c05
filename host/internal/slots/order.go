package slots

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// headStart is how much earlier a running job counts as queued than a new one: its time is running. A try after a
	// failure counts as much later than a new job.
	headStart = 30 * time.Second
	// reservePart of the slots is out of reach for one namespace, and as much again for one target.
	reservePart = 8
	// silentPart of the slots is the most for all silent targets together.
	silentPart = 4
)

// silent is the tenant of all silent targets.
const silent = " silent"

// tenant has the slots of all shares of a tenant, and its last turn.
type tenant struct {
	given int
	turn  int
}

func (s *Slots) perTenant() map[string]tenant {
	all := map[string]tenant{}
	for of, state := range s.shares {
		name := s.tenantOf(of)
		all[name] = tenant{given: all[name].given + state.given, turn: max(all[name].turn, state.turn)}
	}
	return all
}

func (s *Slots) tenantOf(of Share) string {
	if known := s.shares[of]; known != nil && s.now().Before(known.silentUntil) {
		return silent
	}
	return of.Namespace
}

// mayHave reports whether a share may have one more slot now.
func (s *Slots) mayHave(of Share, tenants map[string]tenant) bool {
	if len(s.given) >= s.size {
		return false
	}
	given, name := 0, s.tenantOf(of)
	if known := s.shares[of]; known != nil {
		given = known.given
	}
	switch {
	case of == Poison:
		return given == 0
	case name == silent:
		return given == 0 && tenants[name].given < max(s.size/silentPart, 1)
	default:
		return given < s.MaxOf(of) && tenants[name].given < s.size-s.size/reservePart
	}
}

// MaxOf is the largest number of slots for a share. Items without a Target have no limit by the plugin.
func (s *Slots) MaxOf(of Share) int {
	most := s.size - 2*(s.size/reservePart)
	if s.perTarget > 0 && of.Target != "" {
		most = min(most, s.perTarget)
	}
	return most
}

// next returns the next queued item to get a slot.
func (s *Slots) next() (key types.NamespacedName, ok bool) {
	if len(s.queued) == 0 || len(s.given) >= s.size {
		return key, false
	}
	tenants := s.perTenant()
	var best []int // the lesser the earlier
	for of, state := range s.shares {
		first, own, queued := s.firstOf(state)
		if !queued || !s.mayHave(of, tenants) {
			continue
		}
		t := tenants[s.tenantOf(of)]
		rank := []int{0, t.given, t.turn, state.given, state.turn, s.queued[first].number}
		// Of equal shares the oldest and the newest take turns: the targets of all old ones may be silent, and only a call
		// shows it.
		if s.turn%2 == 1 {
			rank[5] = -rank[5]
		}
		if !own {
			rank[0] = 1
		}
		if best == nil || slices.Compare(rank, best) < 0 {
			key, best = first, rank
		}
	}
	return key, best != nil
}

// firstOf returns the next item of a share to get a slot, and whether it is this replica's own.
func (s *Slots) firstOf(state *shareState) (key types.NamespacedName, own, ok bool) {
	var earliest time.Time
	for class, start := range [...]time.Duration{Running: -headStart, Preferred: 0, Try: headStart} {
		if queue := state.queues[class]; len(queue) > 0 {
			since := s.queued[queue[0]].since.Add(start)
			if !ok || since.Before(earliest) {
				key, earliest, own, ok = queue[0], since, true, true
			}
		}
	}
	if ok {
		return key, own, ok
	}
	for _, queue := range state.queues[firstOther:] {
		if len(queue) > 0 {
			// The preferred replica begins with the first, this one with the last.
			return queue[len(queue)-1], false, true
		}
	}
	return key, false, false
}
