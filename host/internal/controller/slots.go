package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// slots bound how many calls of one plugin are under way. Nobody blocks for one: an item that gets none is put into a line and
// is told when its turn has come. So the workers that are not in a call are free to pick up jobs, however slow the deployer is.
//
// Jobs under way come before new ones: their time is running, and that of the others is not (see package contract).
type slots struct {
	mu   sync.Mutex
	free int
	// underWay and fresh are the items in line, in the order in which they came.
	underWay, fresh []types.NamespacedName
	// inLine tells of each item in line whether it is one under way.
	inLine map[types.NamespacedName]bool
	// called are the items whose turn it is. For each of them a slot is kept.
	called map[types.NamespacedName]bool
}

func newSlots(n int) *slots {
	return &slots{free: n, inLine: map[types.NamespacedName]bool{}, called: map[types.NamespacedName]bool{}}
}

// take takes a slot for an item, or puts the item in line. A slot that was taken must be given back.
func (s *slots) take(key types.NamespacedName, underWay bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.called[key] || s.free > len(s.called) {
		delete(s.called, key)
		s.leave(key)
		s.free--
		return true
	}
	if before, ok := s.inLine[key]; ok && before == underWay {
		return false
	}
	s.leave(key)
	s.inLine[key] = underWay
	if underWay {
		s.underWay = append(s.underWay, key)
	} else {
		s.fresh = append(s.fresh, key)
	}
	return false
}

func (s *slots) leave(key types.NamespacedName) {
	if _, ok := s.inLine[key]; !ok {
		return
	}
	delete(s.inLine, key)
	isKey := func(k types.NamespacedName) bool { return k == key }
	s.underWay, s.fresh = slices.DeleteFunc(s.underWay, isKey), slices.DeleteFunc(s.fresh, isKey)
}

// giveBack gives a slot back.
func (s *slots) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
}

// hasTurn tells whether it is the turn of an item.
func (s *slots) hasTurn(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.called[key]
}

// settle ends the look at an item, and returns the items whose turn it is now. If it was the item's own turn when the look began,
// and it has made no use of it, the turn is over; one that has come meanwhile is for the next look.
func (s *slots) settle(key types.NamespacedName, turn bool) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn {
		delete(s.called, key)
	}
	var next []types.NamespacedName
	for s.free > len(s.called) && len(s.inLine) > 0 {
		line := &s.underWay
		if len(*line) == 0 {
			line = &s.fresh
		}
		first := (*line)[0]
		*line = (*line)[1:]
		delete(s.inLine, first)
		s.called[first] = true
		next = append(next, first)
	}
	return next
}
