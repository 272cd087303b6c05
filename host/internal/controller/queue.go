package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxStandby is how long an item that another replica is preferred for stays unread while no slot is free.
const maxStandby = 10 * time.Second

// class says in which order queued items get slots.
type class int

// The classes, in the order in which they get slots. Poison items, during whose calls the plugin has crashed, come
// first, but share one slot. Running jobs come before new ones: their time is running, that of new ones is not (see
// package contract). Then come the jobs that prefer this replica, then those that prefer it second, and so on: replicas
// that have no items of their own begin with different ones.
//
// When the plugin crashes again, one poison item alone can be to blame. An item that crashes the plugin hits another
// one at most once: after that both are poison. An innocent job therefore reaches the limit of crashes only if at least
// as many others crash the plugin while it runs, or if the plugin crashes for another reason. Nor does it wait for
// ever: each crash before its call brings another item closer to the limit.
const (
	poison class = iota
	running
	preferred
	firstOther
	lastOther = firstOther + 3
	classes   = lastOther + 1
)

// classOf is the class of a job that is not running, by the rank of this replica for its item.
func classOf(rank int) class { return min(preferred+class(rank), lastOther) }

// slots bound how many calls of one plugin run at once. Nobody blocks for a slot: an item that gets none is queued, and
// is reconciled again when a slot is reserved for it. So the workers that are not in a call can pick up jobs, however
// slow the deployer is.
type slots struct {
	size int
	now  func() time.Time

	mu   sync.Mutex
	free int // reserved ones included
	// queues are the queued items of each class, in the order in which they came.
	queues [classes][]types.NamespacedName
	// queued says of each queued item in which queue it is.
	queued map[types.NamespacedName]queuedItem
	// reserved are the items for which a slot is reserved.
	reserved map[types.NamespacedName]bool
	// poison is the poison item that is in its call, or for which a slot is reserved; zero for none.
	poison types.NamespacedName
}

type queuedItem struct {
	class class
	since time.Time
}

func newSlots(n int, now func() time.Time) *slots {
	return &slots{
		size: n, free: n, now: now,
		queued: map[types.NamespacedName]queuedItem{}, reserved: map[types.NamespacedName]bool{},
	}
}

// acquire takes a slot for an item, or queues the item. A slot that was taken must be released.
func (s *slots) acquire(key types.NamespacedName, c class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poison == key && c != poison { // the crashes were those of an earlier job
		s.poison = types.NamespacedName{}
	}
	if !s.reserved[key] && s.free <= len(s.reserved) || c == poison && !s.onlyPoison(key) {
		s.enqueue(key, c)
		return false
	}
	delete(s.reserved, key)
	s.dequeue(key)
	s.free--
	if c == poison {
		s.poison = key
	}
	return true
}

// onlyPoison reports whether no other poison item has a slot.
func (s *slots) onlyPoison(key types.NamespacedName) bool {
	return s.poison == key || s.poison == types.NamespacedName{}
}

// standby reports whether to reconcile an item that another replica is preferred for: a slot is free for it, or it has
// been queued for long. Otherwise it queues the item.
func (s *slots) standby(key types.NamespacedName, c class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved[key] || s.free > len(s.reserved) {
		return true
	}
	before, queued := s.queued[key]
	if !queued {
		s.enqueue(key, c)
	}
	return queued && s.now().Sub(before.since) >= maxStandby
}

func (s *slots) enqueue(key types.NamespacedName, c class) {
	before, queued := s.queued[key]
	if queued && before.class == c {
		return
	}
	since := s.now()
	if queued {
		since = before.since
		s.dequeue(key)
	}
	s.queued[key] = queuedItem{class: c, since: since}
	s.queues[c] = append(s.queues[c], key)
}

func (s *slots) dequeue(key types.NamespacedName) {
	item, ok := s.queued[key]
	if !ok {
		return
	}
	delete(s.queued, key)
	queue := s.queues[item.class]
	if queue[0] == key { // the usual case, and cheap
		s.queues[item.class] = queue[1:]
		return
	}
	i := slices.Index(queue, key)
	s.queues[item.class] = slices.Delete(queue, i, i+1)
}

// release releases a slot.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
}

// isReserved reports whether a slot is reserved for an item.
func (s *slots) isReserved(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved[key]
}

// used is how many slots are taken.
func (s *slots) used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free
}

// waiting is how many items are queued.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// reconciled ends the reconcile of an item, and returns the items for which slots are reserved now. wasReserved: a slot
// was reserved for the item when the reconcile began; if the item has not used it, others get it. One that was reserved
// since is for the next reconcile.
func (s *slots) reconciled(key types.NamespacedName, wasReserved bool) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wasReserved {
		delete(s.reserved, key)
	}
	if s.poison == key && !s.reserved[key] {
		s.poison = types.NamespacedName{}
	}
	var next []types.NamespacedName
	for s.free > len(s.reserved) {
		first, ok := s.next()
		if !ok {
			break
		}
		s.reserved[first] = true
		next = append(next, first)
	}
	return next
}

// next dequeues the item that gets a slot next. Of the items that another replica is preferred for it is the last one
// that came: the other replica begins with the first.
func (s *slots) next() (key types.NamespacedName, ok bool) {
	for c, queue := range s.queues {
		if len(queue) == 0 || class(c) == poison && !s.onlyPoison(queue[0]) {
			continue
		}
		key = queue[0]
		if class(c) >= firstOther {
			key = queue[len(queue)-1]
		}
		if class(c) == poison {
			s.poison = key
		}
		s.dequeue(key)
		return key, true
	}
	return key, false
}
