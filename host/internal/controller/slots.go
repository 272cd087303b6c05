package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxStandby is how long an item that another replica is preferred for stays unread while no slot is free.
	maxStandby = 10 * time.Second
	// headStart is how much earlier a running job counts as queued than a new one: its time is running.
	headStart = 30 * time.Second
	// silence is how long a target counts as silent after a call that it has not answered. The pauses between the calls
	// of a job are shorter.
	silence = 3 * time.Minute
	// reservePart of the slots is what one namespace leaves to others, and one target leaves to others besides.
	reservePart = 8
	// silentPart of the slots is what all silent targets have together at most.
	silentPart = 4
)

// class says in which order the queued items of one share get slots.
type class int

// The classes. Running and preferred jobs are this replica's own and get slots in the order in which they came, with a
// head start for running ones. Jobs that prefer another replica get one if no own job can have it: those that prefer
// this replica second come first, and so on, so that replicas that have no items of their own begin with different ones.
const (
	running class = iota
	preferred
	firstOther
	lastOther = firstOther + 3
	classes   = lastOther + 1
)

// classOf is the class of a job that is not running, by the rank of this replica for its item.
func classOf(rank int) class { return min(preferred+class(rank), lastOther) }

// share is what shares the slots of a plugin fairly with others: the items of one Target of one namespace, or poison.
type share struct{ namespace, target string }

// shareOf returns the share of an item that is no poison item.
func shareOf(item *v1alpha1.DeployItem) share {
	target, _ := contract.TargetOfItem(item)
	return share{namespace: item.Namespace, target: target}
}

// poison is the share of all items during whose calls the plugin has crashed. It has one slot at most.
//
// When the plugin crashes again, one poison item alone can be to blame. An item that crashes the plugin hits another
// one at most once: after that both are poison. An innocent job therefore reaches the limit of crashes only if at least
// as many other items crash the plugin while it runs, or if the plugin crashes for another reason. Nor does it wait for
// ever: each crash before its call brings another item closer to the limit.
var poison = share{namespace: " poison"} // no namespace has this name

// silent is the tenant of all targets that do not answer.
const silent = " silent"

// slots bound how many calls of one plugin run at once. Nobody blocks for a slot: an item that gets none is queued, and
// is reconciled again when a slot is reserved for it. So the workers that are not in a call can pick up jobs, however
// slow the deployer is.
//
// Tenants share the slots: the namespaces, and all silent targets together. A slot goes to the tenant that has the
// fewest, among those to the one whose last turn is the longest ago, and in the same way to one of its shares. An eighth
// of the slots is out of reach for a namespace, and another eighth for a target, so that the calls of one, however long
// they take, do not keep all others waiting. A silent target has one slot at most, and all together have a quarter.
type slots struct {
	size int
	now  func() time.Time

	mu     sync.Mutex
	turn   int // counts the slots that were given
	count  int // counts the items that were queued
	shares map[share]*queuesOfShare
	// queued says of each queued item in which queue it is.
	queued map[types.NamespacedName]queuedItem
	// given are the slots that are taken by a call or reserved for one.
	given map[types.NamespacedName]givenSlot
}

// queuesOfShare exist while items of the share are queued or have slots, or its target is silent.
type queuesOfShare struct {
	// queues are the queued items of each class, in the order in which they came.
	queues      [classes][]types.NamespacedName
	given       int
	turn        int // the last in which the share got a slot
	silentUntil time.Time
}

type queuedItem struct {
	share  share
	class  class
	since  time.Time
	number int // in the order in which items were queued
}

type givenSlot struct {
	share    share
	reserved bool
}

func newSlots(n int, now func() time.Time) *slots {
	return &slots{
		size: n, now: now, shares: map[share]*queuesOfShare{},
		queued: map[types.NamespacedName]queuedItem{}, given: map[types.NamespacedName]givenSlot{},
	}
}

// acquire takes a slot for an item, or queues the item. A slot that was taken must be released.
func (s *slots) acquire(key types.NamespacedName, of share, c class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given[key].reserved { // it is given again below if its share may still have it
		reserved := s.given[key].share
		s.takeBack(key)
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

// standby reports whether to reconcile an item that another replica is preferred for: a slot is free for it, or it has
// been queued for long. Otherwise it queues the item.
func (s *slots) standby(key types.NamespacedName, of share, c class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, queued := s.queued[key]
	if s.given[key].reserved || s.mayHave(of, s.perTenant()) {
		return true
	}
	if !queued {
		s.enqueue(key, of, c)
	}
	return queued && s.now().Sub(before.since) >= maxStandby
}

// release releases the slot of an item.
func (s *slots) release(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack(key)
}

// isReserved reports whether a slot is reserved for an item.
func (s *slots) isReserved(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[key].reserved
}

// used is how many slots are taken by calls.
func (s *slots) used() (used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.given {
		if !slot.reserved {
			used++
		}
	}
	return used
}

// waiting is how many items are queued.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queued)
}

// givenTo is how many slots are given, and how many of them to the targets of a namespace.
func (s *slots) givenTo(namespace string) (all, toNamespace int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.given {
		if slot.share.namespace == namespace {
			toNamespace++
		}
	}
	return len(s.given), toNamespace
}

// answered notes whether the target of a share has answered a call.
func (s *slots) answered(of share, answers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.shares[of]; known != nil && answers {
		known.silentUntil = time.Time{}
		s.forgetUnused(of)
	} else if !answers {
		s.shareOf(of).silentUntil = s.now().Add(silence)
	}
	for other := range s.shares { // such as one whose Target was deleted
		s.forgetUnused(other)
	}
}

// isSilent reports whether the target of a share has not answered the last call.
func (s *slots) isSilent(of share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenantOf(of) == silent
}

// reconciled ends the reconcile of an item, and returns the items for which slots are reserved now. wasReserved: a slot
// was reserved for the item when the reconcile began; if the item has not used it, others get it. One that was reserved
// since is for the next reconcile.
func (s *slots) reconciled(key types.NamespacedName, wasReserved bool) (reserved []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wasReserved && s.given[key].reserved {
		s.takeBack(key)
	}
	for first, ok := s.next(); ok; first, ok = s.next() {
		s.give(first, s.queued[first].share, true)
		reserved = append(reserved, first)
	}
	return reserved
}

func (s *slots) give(key types.NamespacedName, to share, reserved bool) {
	s.turn++
	s.given[key] = givenSlot{share: to, reserved: reserved}
	queues := s.shareOf(to)
	queues.given, queues.turn = queues.given+1, s.turn
	s.dequeue(key)
}

func (s *slots) takeBack(key types.NamespacedName) {
	of := s.given[key].share
	delete(s.given, key)
	s.shares[of].given--
	s.forgetUnused(of)
}

func (s *slots) enqueue(key types.NamespacedName, to share, c class) {
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
	queues := &s.shareOf(to).queues
	queues[c] = append(queues[c], key)
}

func (s *slots) dequeue(key types.NamespacedName) {
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

func (s *slots) shareOf(of share) *queuesOfShare {
	if s.shares[of] == nil {
		s.shares[of] = &queuesOfShare{}
	}
	return s.shares[of]
}

func (s *slots) forgetUnused(of share) {
	known := s.shares[of]
	queued := slices.ContainsFunc(known.queues[:], func(q []types.NamespacedName) bool { return len(q) > 0 })
	if !queued && known.given == 0 && !s.now().Before(known.silentUntil) {
		delete(s.shares, of)
	}
}

// tenant is what is known of a tenant: how many slots it has, and when it got the last one.
type tenant struct {
	given int
	turn  int
}

func (s *slots) perTenant() map[string]tenant {
	all := map[string]tenant{}
	for of, queues := range s.shares {
		name := s.tenantOf(of)
		all[name] = tenant{given: all[name].given + queues.given, turn: max(all[name].turn, queues.turn)}
	}
	return all
}

func (s *slots) tenantOf(of share) string {
	if known := s.shares[of]; known != nil && s.now().Before(known.silentUntil) {
		return silent
	}
	return of.namespace
}

// mayHave reports whether there is a slot that a share may have.
func (s *slots) mayHave(of share, tenants map[string]tenant) bool {
	if len(s.given) >= s.size {
		return false
	}
	given, name := 0, s.tenantOf(of)
	if known := s.shares[of]; known != nil {
		given = known.given
	}
	switch {
	case of == poison:
		return given == 0
	case name == silent:
		return given == 0 && tenants[name].given < max(s.size/silentPart, 1)
	default:
		return given < s.maxOfTarget() && tenants[name].given < s.size-s.size/reservePart
	}
}

func (s *slots) maxOfTarget() int { return s.size - 2*(s.size/reservePart) }

// next returns the queued item that gets a slot next. Of shares that have had none the one that came first and the one
// that came last take turns: those before may all be targets that do not answer, which nobody knows before a call.
func (s *slots) next() (key types.NamespacedName, ok bool) {
	if len(s.queued) == 0 || len(s.given) >= s.size {
		return key, false
	}
	tenants := s.perTenant()
	var best []int // the lesser the earlier
	for of, queues := range s.shares {
		first, own, queued := s.firstOf(queues)
		if !queued || !s.mayHave(of, tenants) {
			continue
		}
		t := tenants[s.tenantOf(of)]
		rank := []int{0, t.given, t.turn, queues.given, queues.turn, s.queued[first].number}
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

// firstOf returns the item of a share that gets a slot next. Of the items that another replica is preferred for it is
// the last one that came: the other replica begins with the first.
func (s *slots) firstOf(queues *queuesOfShare) (key types.NamespacedName, own, ok bool) {
	goesOn, begins := queues.queues[running], queues.queues[preferred]
	switch {
	case len(goesOn) > 0 && len(begins) > 0:
		if s.queued[begins[0]].since.Add(headStart).Before(s.queued[goesOn[0]].since) {
			return begins[0], true, true
		}
		return goesOn[0], true, true
	case len(goesOn) > 0:
		return goesOn[0], true, true
	case len(begins) > 0:
		return begins[0], true, true
	}
	for _, queue := range queues.queues[firstOther:] {
		if len(queue) > 0 {
			return queue[len(queue)-1], false, true
		}
	}
	return key, false, false
}
