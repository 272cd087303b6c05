package controller

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// suspects let those items of one plugin into their calls one at a time in whose jobs' calls the plugin has died:
// when it dies once more, one of them alone can be to blame. An item that was not in such a call waits for none of
// them.
//
// With one job that kills the plugin, any other one is hit by it at most once: after that both are suspects. A job
// that is innocent therefore comes to the limit of crashes only if at least as many others kill the plugin while it
// is under way, or if the plugin dies of something else. Nor does a suspect wait for ever: each crash before its turn
// brings another one closer to the limit.
//
// The turn is that of an item in its call, or of one that stands in line for a slot, or of one that a slot is kept
// for. The zero value has no suspects.
type suspects struct {
	// turn is the item whose turn it is; zero for none.
	turn types.NamespacedName
	// line are the items that wait for theirs, in the order in which they came.
	line []types.NamespacedName
	// refused are those of them that have asked in the look that goes on.
	refused map[types.NamespacedName]bool
}

// admit tells whether a suspect may go on to its call. One that may not has its place in line when its look ends:
// until then, whether it could make use of its turn is not known.
func (s *suspects) admit(key types.NamespacedName) bool {
	if s.nobodysTurn() {
		s.turn = key
	}
	if s.turn == key {
		return true
	}
	if s.refused == nil {
		s.refused = map[types.NamespacedName]bool{}
	}
	s.refused[key] = true
	return false
}

// acquit takes an item out that is no suspect, and returns the one that is to stand in line for a slot now; zero for
// none.
func (s *suspects) acquit(key types.NamespacedName) (next types.NamespacedName) {
	s.line = slices.DeleteFunc(s.line, func(other types.NamespacedName) bool { return other == key })
	if s.turn == key {
		return s.pass()
	}
	return next
}

// settle ends the look at an item, and returns the one that is to stand in line for a slot now; zero for none.
// standing tells whether the item stands in line for a slot, or has one kept.
func (s *suspects) settle(key types.NamespacedName, standing bool) (next types.NamespacedName) {
	refused := s.refused[key]
	delete(s.refused, key)
	switch {
	case refused && s.nobodysTurn():
		s.turn = key
		return key
	case refused && s.turn == key && !standing: // its turn has come since
		return key
	case refused && s.turn != key && !slices.Contains(s.line, key):
		s.line = append(s.line, key)
	case !refused && s.turn == key && !standing:
		return s.pass()
	}
	return next
}

// pass ends a turn and begins that of the first in line.
func (s *suspects) pass() (next types.NamespacedName) {
	if len(s.line) > 0 {
		next, s.line = s.line[0], s.line[1:]
	}
	s.turn = next
	return next
}

func (s *suspects) nobodysTurn() bool { return s.turn == types.NamespacedName{} }
