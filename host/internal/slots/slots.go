// Package slots bounds how many calls of one plugin run at once, and shares them fairly. Users call a slot a worker.
//
// Nothing blocks for a slot: an item without one is queued, and is reconciled again when a slot is reserved for it. So
// idle workers of the queue can pick up jobs, however slow the deployer is.
//
// Tenants share the slots: each namespace is one, and all silent targets together are one. A slot goes to the tenant
// with the fewest, then to the tenant whose last turn is the longest ago, and by the same rule to one of its shares.
// An eighth of the slots is out of reach for a namespace, and another eighth for a target, so that their calls,
// however long, do not keep all others waiting. A silent target has one slot at most, and all of them together have a
// quarter.
package slots

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// MaxStandby bounds how long an item with another preferred replica stays unread while no slot is free.
	MaxStandby = 10 * time.Second
	// silence is how long a target counts as silent after a call without an answer from it. The pauses between the calls
	// of a job are shorter.
	silence = 3 * time.Minute
)

// Class orders the queued items of one share.
type Class int

// Running jobs and jobs with a preference for this replica are its own: they get slots in the order of their arrival,
// with a head start for running ones, and behind fresh ones for tries after a failure. Others get a slot if no own job
// can have it, by the rank of this replica for them, so that idle replicas begin with different ones.
const (
	Running Class = iota
	Preferred
	Try
	firstOther
	lastOther = firstOther + 3
	classes   = lastOther + 1
)

// ClassOf returns the class of a job that is not running, by the rank of this replica for its item.
func ClassOf(rank int, try bool) Class {
	switch {
	case rank > 0:
		return min(firstOther+Class(rank)-1, lastOther)
	case try:
		return Try
	default:
		return Preferred
	}
}

// Share is a fair share of the slots: the items of one Target of one namespace, or Poison.
type Share struct{ Namespace, Target string }

// ShareOf returns the share of an item, unless it is a poison item.
func ShareOf(item *v1alpha1.DeployItem) Share {
	target, _ := contract.TargetOfItem(item)
	return Share{Namespace: item.Namespace, Target: target}
}

// Poison is the share of all items with a call during a crash of the plugin. It has one slot at most.
//
// So at most one poison item runs at a time, and a guilty item hits any other item at most once: in the first crash
// both become poison. An innocent job reaches the limit of crashes only after crashes by as many different guilty
// items, or for a reason outside the items. Its wait is bounded: each crash before its call brings another item closer
// to its limit.
var Poison = Share{Namespace: " poison"} // no namespace has this name

// Slots are the slots of one plugin. Create them with New.
type Slots struct {
	size int
	// perTarget is the largest number for one target by the plugin or the operator; zero for no such limit.
	perTarget int
	now       func() time.Time

	mu     sync.Mutex
	turn   int // counts the slots given so far
	count  int // counts the items queued so far
	shares map[Share]*shareState
	queued map[types.NamespacedName]queuedItem
	given  map[types.NamespacedName]givenSlot
}

// shareState exists while items of the share are queued or have slots, or while its target is silent.
type shareState struct {
	// queues are the queued items of each class, in the order of their arrival.
	queues      [classes][]types.NamespacedName
	given       int
	turn        int // the last turn of the share
	silentUntil time.Time
}

type queuedItem struct {
	share  Share
	class  Class
	since  time.Time
	number int // in the order of arrival
}

// givenSlot is a slot in use by a call, or reserved for one.
type givenSlot struct {
	share    Share
	reserved bool
}

// New returns n slots, perTarget of them for one target at most, zero for no such limit. now is the clock.
func New(n, perTarget int, now func() time.Time) *Slots {
	return &Slots{
		size: n, perTarget: perTarget, now: now, shares: map[Share]*shareState{},
		queued: map[types.NamespacedName]queuedItem{}, given: map[types.NamespacedName]givenSlot{},
	}
}

// Acquire takes a slot for an item, to be released, or else queues the item.
func (s *Slots) Acquire(key types.NamespacedName, of Share, c Class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[key].reserved {
		reserved := s.given[key].share
		s.takeBack(key)
		// The limits may have changed since the reservation, such as by the silence of the target.
		if reserved == of && s.mayHave(of, s.perTenant()) {
			s.give(key, of, false)
			return true
		}
	}
	s.enqueue(key, of, c)
	if first, ok := s.next(); !ok || first != key {
		return false
	}
	s.give(key, of, false)
	return true
}

// Standby reports whether to reconcile an item with another preferred replica: a slot is free for it, or it was queued
// MaxStandby ago. Otherwise it queues the item.
func (s *Slots) Standby(key types.NamespacedName, of Share, c Class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, queued := s.queued[key]
	if s.given[key].reserved || s.mayHave(of, s.perTenant()) {
		return true
	}
	if !queued {
		s.enqueue(key, of, c)
	}
	return queued && s.now().Sub(before.since) >= MaxStandby
}

// Release releases the slot of an item.
func (s *Slots) Release(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(key)
}

// IsReserved reports whether a slot is reserved for an item.
func (s *Slots) IsReserved(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[key].reserved
}

// EndReconcile ends the reconcile of an item, and returns the items with newly reserved slots. wasReserved is the
// value of IsReserved when the reconcile began.
func (s *Slots) EndReconcile(key types.NamespacedName, wasReserved bool) (reserved []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A slot reserved during this reconcile is for the next one.
	if wasReserved && s.given[key].reserved {
		s.takeBack(key)
	}
	for first, ok := s.next(); ok; first, ok = s.next() {
		s.give(first, s.queued[first].share, true)
		reserved = append(reserved, first)
	}
	return reserved
}

// SetAnswered notes whether the target of a share has answered a call.
func (s *Slots) SetAnswered(of Share, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.shares[of]; known != nil && answered {
		known.silentUntil = time.Time{}
	} else if !answered {
		s.stateOf(of).silentUntil = s.now().Add(silence)
	}
	// Nothing else ends the state of a share whose Target was deleted while it was silent.
	for other := range s.shares {
		s.forgetUnused(other)
	}
}

// IsSilent reports whether the target of a share has left its last call without an answer.
func (s *Slots) IsSilent(of Share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenantOf(of) == silent
}

// Size is the number of slots.
func (s *Slots) Size() int { return s.size }

// Used is the number of slots in use by calls.
func (s *Slots) Used() (used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.given {
		if !slot.reserved {
			used++
		}
	}
	return used
}

// Waiting is the number of queued items.
func (s *Slots) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// Given is the number of slots in use or reserved, in all and for the targets of a namespace.
func (s *Slots) Given(namespace string) (all, ofNamespace int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.given {
		if slot.share.Namespace == namespace {
			ofNamespace++
		}
	}
	return len(s.given), ofNamespace
}

func (s *Slots) give(key types.NamespacedName, to Share, reserved bool) {
	s.turn++
	s.given[key] = givenSlot{share: to, reserved: reserved}
	state := s.stateOf(to)
	state.given, state.turn = state.given+1, s.turn
	s.dequeue(key)
}

func (s *Slots) takeBack(key types.NamespacedName) {
	of := s.given[key].share
	delete(s.given, key)
	s.shares[of].given--
	s.forgetUnused(of)
}

func (s *Slots) enqueue(key types.NamespacedName, to Share, c Class) {
	before, queued := s.queued[key]
	if queued && before.class == c && before.share == to {
		return
	}
	s.count++
	item := queuedItem{share: to, class: c, since: s.now(), number: s.count}
	if queued {
		item.since, item.number = before.since, before.number
		s.dequeue(key)
	}
	s.queued[key] = item
	queues := &s.stateOf(to).queues
	queues[c] = append(queues[c], key)
}

func (s *Slots) dequeue(key types.NamespacedName) {
	item, ok := s.queued[key]
	if !ok {
		return
	}
	delete(s.queued, key)
	queue := &s.shares[item.share].queues[item.class]
	if (*queue)[0] == key { // the usual case, and cheap
		*queue = (*queue)[1:]
	} else {
		i := slices.Index(*queue, key)
		*queue = slices.Delete(*queue, i, i+1)
	}
	s.forgetUnused(item.share)
}

func (s *Slots) stateOf(of Share) *shareState {
	if s.shares[of] == nil {
		s.shares[of] = &shareState{}
	}
	return s.shares[of]
}

func (s *Slots) forgetUnused(of Share) {
	known := s.shares[of]
	queued := slices.ContainsFunc(known.queues[:], func(q []types.NamespacedName) bool { return len(q) > 0 })
	if !queued && known.given == 0 && !s.now().Before(known.silentUntil) {
		delete(s.shares, of)
	}
}
