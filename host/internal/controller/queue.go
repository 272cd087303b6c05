package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxStandby is how long an item that another replica comes first for is left unread for want of a slot.
const maxStandby = 10 * time.Second

// place is where an item stands in the lines for a slot.
type place int

// The places, in the order in which slots go to them. Poison items, in whose jobs' calls the plugin has died, come
// first, but have one slot in all. Jobs under way come before new ones: their time is running, and that of the others
// is not (see package contract). Then come the jobs that prefer this replica, then those that it is the next best for,
// and so on: replicas that have nothing of their own left to do begin with different ones.
//
// When the plugin dies once more, one poison item alone can be to blame. With one job that kills the plugin, any other
// one is hit by it at most once: after that both count as poison. A job that is innocent therefore comes to the limit
// of crashes only if at least as many others kill the plugin while it is under way, or if the plugin dies of something
// else. Nor does it wait for ever: each crash before its call brings another one closer to the limit.
const (
	poison place = iota
	underWay
	own
	firstOther
	lastOther = firstOther + 3
	places    = lastOther + 1
)

// placeOf is the place of a job that is not under way, by the rank of this replica for its item.
func placeOf(rank int) place { return min(own+place(rank), lastOther) }

// slots bound how many calls of one plugin are under way. Nobody blocks for one: an item that gets none is put into a
// line and is woken when a slot is kept for it. So the workers that are not in a call are free to pick up jobs, however
// slow the deployer is.
type slots struct {
	size int
	now  func() time.Time

	mu   sync.Mutex
	free int
	// lines are the items in line at each place, in the order in which they came.
	lines [places][]types.NamespacedName
	// inLine says of each item in line where it stands.
	inLine map[types.NamespacedName]standing
	// kept are the items for which a slot is kept.
	kept map[types.NamespacedName]bool
	// poison is the poison item that is in its call, or for which a slot is kept; zero for none.
	poison types.NamespacedName
}

// standing is where an item stands in line, and since when.
type standing struct {
	at    place
	since time.Time
}

func newSlots(n int, now func() time.Time) *slots {
	return &slots{
		size: n, free: n, now: now,
		inLine: map[types.NamespacedName]standing{}, kept: map[types.NamespacedName]bool{},
	}
}

// take takes a slot for an item, or puts the item in line. A slot that was taken must be given back.
func (s *slots) take(key types.NamespacedName, at place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poison == key && at != poison { // the crashes were those of an earlier job
		s.poison = types.NamespacedName{}
	}
	if !s.kept[key] && s.free <= len(s.kept) || at == poison && !s.onePoison(key) {
		s.stand(key, at)
		return false
	}
	delete(s.kept, key)
	s.leave(key)
	s.free--
	if at == poison {
		s.poison = key
	}
	return true
}

// onePoison reports whether no other poison item is in its call.
func (s *slots) onePoison(key types.NamespacedName) bool {
	return s.poison == key || s.poison == types.NamespacedName{}
}

// standby reports whether to reconcile an item that another replica comes first for: there is a slot that it could
// have, or it has been in line for long. Otherwise it is put in line.
func (s *slots) standby(key types.NamespacedName, at place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[key] || s.free > len(s.kept) {
		return true
	}
	before, standing := s.inLine[key]
	if !standing {
		s.stand(key, at)
	}
	return standing && s.now().Sub(before.since) >= maxStandby
}

func (s *slots) stand(key types.NamespacedName, at place) {
	before, inLine := s.inLine[key]
	if inLine && before.at == at {
		return
	}
	since := s.now()
	if inLine {
		since = before.since
		s.leave(key)
	}
	s.inLine[key] = standing{at: at, since: since}
	s.lines[at] = append(s.lines[at], key)
}

func (s *slots) leave(key types.NamespacedName) {
	before, ok := s.inLine[key]
	if !ok {
		return
	}
	delete(s.inLine, key)
	line := s.lines[before.at]
	if line[0] == key { // as with nearly all
		s.lines[before.at] = line[1:]
		return
	}
	i := len(line) - 1
	for line[i] != key {
		i--
	}
	s.lines[before.at] = slices.Delete(line, i, i+1)
}

// giveBack gives a slot back.
func (s *slots) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
}

// hasSlot reports whether a slot is kept for an item.
func (s *slots) hasSlot(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[key]
}

// used is how many slots are taken.
func (s *slots) used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free
}

// waiting is how many items are in line.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inLine)
}

// reconciled ends the reconcile of an item, and returns the items for which a slot is kept now. One that was kept for
// the item itself when the reconcile began, and that it has made no use of, is given on; one that was kept meanwhile is
// for the next reconcile.
func (s *slots) reconciled(key types.NamespacedName, slotKept bool) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slotKept {
		delete(s.kept, key)
	}
	if s.poison == key && !s.kept[key] {
		s.poison = types.NamespacedName{}
	}
	var next []types.NamespacedName
	for s.free > len(s.kept) {
		first, ok := s.pop()
		if !ok {
			break
		}
		s.kept[first] = true
		next = append(next, first)
	}
	return next
}

// pop takes the item out of line that gets a slot next. Of the items that another replica comes first for it is the
// last that came: that one begins with the first.
func (s *slots) pop() (next types.NamespacedName, ok bool) {
	at := slices.IndexFunc(s.lines[:], func(line []types.NamespacedName) bool {
		return len(line) > 0 && (s.inLine[line[0]].at != poison || s.onePoison(line[0]))
	})
	if at < 0 {
		return next, false
	}
	line := s.lines[at]
	next = line[0]
	if place(at) >= firstOther {
		next = line[len(line)-1]
	}
	if s.inLine[next].at == poison {
		s.poison = next
	}
	s.leave(next)
	return next, true
}
