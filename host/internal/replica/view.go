package replica

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Self is the replica that a View belongs to.
type Self struct {
	PodName string
	PodUID  types.UID
	// Process is the holder identity of the own Lease, which no other process has.
	Process string
	// Group is the group of replicas that share work with each other. May be empty.
	Group string
	// LeaseDuration is how long the own Lease holds after a renewal.
	LeaseDuration time.Duration
}

// View is what a replica knows, and what follows from it. It does no input and output and starts no goroutine: what happens is told to
// its Feed. Its methods may be called from many goroutines at the same time, and do not block.
type View struct {
	self  Self
	clock clock.PassiveClock
	log   *slog.Logger
	wake  func(podName string)

	warnOnce sync.Once
	members  atomic.Pointer[members]

	mu        sync.Mutex
	pods      map[string]*pod
	validity  validity
	leaving   bool
	listeners []Listener
	events    []event
	ready     chan struct{} // takes one signal that there are events
	replaced  chan struct{} // closed when the own pod or Lease is somebody else's
	takenOver chan struct{} // takes one signal that the own Lease seems to be somebody else's
}

// pod is what is known of the pod of a name.
type pod struct {
	// there: the watch shows it, so it has not finished. gone: it is confirmed that there is none, or that it has finished.
	there, gone bool
	// asked: somebody has asked for a verdict, and wants to hear of its death.
	asked bool
	// doubted: what is to be found out about it is on the way already.
	doubted bool
	lease   *lease // nil if there is none
}

// forgettable tells that nothing is known of the pod that anybody could miss.
func (p *pod) forgettable() bool { return !p.there && !p.asked && p.lease == nil }

// NewView returns a View that counts as just renewed and knows of no other replica, and the Feed that tells it more. wake is called
// when there is something to be found out about a pod (see Feed.Next); it is called with the View locked, so it must not block nor
// call back.
func NewView(self Self, clock clock.PassiveClock, log *slog.Logger, wake func(podName string)) (*View, *Feed) {
	v := &View{
		self: self, clock: clock, log: log, wake: wake,
		pods:      map[string]*pod{self.PodName: {there: true, asked: true}},
		validity:  validity{length: self.LeaseDuration * 2 / 3},
		ready:     make(chan struct{}, 1),
		replaced:  make(chan struct{}),
		takenOver: make(chan struct{}, 1),
	}
	v.validity.until = clock.Now().Add(v.validity.length)
	v.members.Store(newMembers(member{podName: self.PodName}, nil))
	return v, &Feed{view: v}
}

// PodName is the name of the own pod.
func (v *View) PodName() string { return v.self.PodName }

// Process names this process, and no other, not even a later one of the same pod. It is the holder identity of the own Lease.
func (v *View) Process() string { return v.self.Process }

// Valid tells whether this replica may count itself as alive: it began its last successful renewal less than two thirds of its
// Lease's duration ago, nobody has replaced it, and Run has not ended. It is computed from the clock at the call. No other replica
// takes this one for dead as long as it has not been false. Once it was false, it is not true again before all listeners have
// returned from Lapsed, and the others may need a moment to see so.
func (v *View) Valid() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.validity.valid(v.clock.Now())
}

// Rank is the place of this replica among those of its group that are alive, for a key: 0 if the key prefers it. Those that leave come
// last. Different replicas may see different places for a moment.
func (v *View) Rank(key string) int { return v.members.Load().rank(key) }

// Elected tells whether this replica is the one of its group for what is to be done once. All replicas that see the same agree on one
// that is alive and does not leave. While their views differ there may be two of them, or none: it suits work that does no harm when it
// is done twice.
func (v *View) Elected() bool {
	m := v.members.Load()
	return !m.self.leaving && m.rank(electionKey) == 0 && v.Valid()
}

// Subscribe lets a listener hear of what happens from now on. Call it before Run.
func (v *View) Subscribe(l Listener) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners = append(v.listeners, l)
}

// pod returns what is known of a pod. View.mu must be held.
func (v *View) pod(name string) *pod {
	p := v.pods[name]
	if p == nil {
		p = &pod{}
		v.pods[name] = p
	}
	return p
}

// doubt has the pod found out about, unless that is on the way; so a failing look is not hurried by those who ask. View.mu must be held.
func (v *View) doubt(name string, p *pod) {
	if p.doubted {
		return
	}
	p.doubted = true
	v.wake(name)
}

// regroup draws up the members anew. View.mu must be held.
func (v *View) regroup() {
	var others []member
	for name, p := range v.pods {
		if l := p.lease; l != nil && !p.gone && !l.ended && l.renewal.holder != "" && l.group == v.self.Group {
			others = append(others, member{podName: name, leaving: l.leaving})
		}
	}
	next := newMembers(member{podName: v.self.PodName, leaving: v.leaving}, others)
	if !next.equal(v.members.Load()) {
		v.members.Store(next)
		v.tell(event{kind: replicasChanged})
	}
}
