package replica

import (
	"log/slog"
	"maps"
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
	// Group is the group of replicas that share work with each other: any string, also an empty one.
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
	sweepAt   int // how many pods there are when those are forgotten that can be
	validity  validity
	leaving   bool
	plugins   string
	group     string // as GroupLabel writes it
	listeners []Listener
	events    []event
	ready     chan struct{} // takes one signal that there are events
	replaced  chan struct{} // closed when the own pod or Lease is somebody else's
	takenOver chan struct{} // takes one signal that the own Lease seems to be somebody else's
	unsaid    chan struct{} // takes one signal that there is something to be said to the other replicas
}

// NewView returns a View that counts as just renewed and knows of no other replica, and the Feed that tells it more. wake is called
// when there is something to be found out about a pod (see Feed.Next); it is called with the View locked, so it must not block nor
// call back.
func NewView(self Self, clock clock.PassiveClock, log *slog.Logger, wake func(podName string)) (*View, *Feed) {
	v := &View{
		self: self, clock: clock, log: log, wake: wake,
		pods:      map[string]*pod{self.PodName: {there: true, uid: self.PodUID, asked: clock.Now()}},
		validity:  validity{length: self.LeaseDuration * 2 / 3},
		group:     GroupLabel(self.Group),
		ready:     make(chan struct{}, 1),
		replaced:  make(chan struct{}),
		takenOver: make(chan struct{}, 1),
		unsaid:    make(chan struct{}, 1),
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

// Rank is the place of this replica for a key of a plugin, among those of its group that serve the plugin and are alive: 0 if the key
// prefers it. Those that leave come last. A replica that does not serve the plugin itself comes after all that do; with none of
// these it has place 0, too. Different replicas may see different places for a moment.
func (v *View) Rank(plugin, key string) int { return v.members.Load().rank(plugin, key) }

// Elected tells whether this replica is the one of its group for what is to be done once. All replicas that see the same agree on one
// that is alive and does not leave. While their views differ there may be two of them, or none: it suits work that does no harm when it
// is done twice.
func (v *View) Elected() bool {
	m := v.members.Load()
	return !m.self.leaving && m.place(m.all, electionKey) == 0 && v.Valid()
}

// ElectedFor tells whether this replica is the one for what is to be done once for a plugin, as Elected does, among those of its
// group that serve the plugin. Plugins may have different ones. For a plugin that nobody serves it is the one of Elected.
func (v *View) ElectedFor(plugin string) bool {
	m := v.members.Load()
	if len(m.servers[plugin]) == 0 {
		return v.Elected()
	}
	return !m.self.leaving && m.serves(plugin) && m.rank(plugin, electionKey+"/"+plugin) == 0 && v.Valid()
}

// Servers is how many replicas of this one's group serve a plugin and are alive, this one included. Different replicas may see different
// numbers for a moment.
func (v *View) Servers(plugin string) int { return len(v.members.Load().servers[plugin]) }

// Member is a replica that is alive.
type Member struct {
	PodName string
	// Self tells whether it is this one, and Leaving whether it is about to stop.
	Self, Leaving bool
	// Plugins that it serves, in order of their names.
	Plugins []string
}

// Members are the replicas of this one's group that are alive, this one included, in order of their names. Different replicas may see different
// ones for a moment.
func (v *View) Members() []Member {
	m := v.members.Load()
	all := make([]Member, 0, len(m.all))
	for _, one := range m.all {
		all = append(all, Member{PodName: one.podName, Self: one == m.self, Leaving: one.leaving, Plugins: splitPlugins(one.plugins)})
	}
	return all
}

// toSay is what the own Lease is to say.
func (v *View) toSay() (leaving bool, plugins string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leaving, v.plugins
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
		v.sweep()
		p = &pod{lease: lease{duration: v.self.LeaseDuration}}
		v.pods[name] = p
	}
	return p
}

const (
	// forgetAfter is how long a pod that is gone is remembered after it was asked about last. It is found out about again then.
	forgetAfter = 10 * time.Minute
	// minSweep is how many pods are not worth a search for those that can be forgotten.
	minSweep = 256
)

// sweep forgets pods when there are twice as many as were worth remembering the last time. View.mu must be held.
func (v *View) sweep() {
	if len(v.pods) < max(v.sweepAt, minSweep) {
		return
	}
	now := v.clock.Now()
	maps.DeleteFunc(v.pods, func(name string, p *pod) bool { return name != v.self.PodName && p.outdated(now) })
	v.sweepAt = 2 * len(v.pods)
}

// find has the pod found out about, unless that is on the way; so a failing look is not hurried by those who ask. View.mu must be held.
func (v *View) find(name string, p *pod) {
	if p.finding {
		return
	}
	p.finding = true
	v.wake(name)
}

// died has the listeners told if a process of a pod has been found dead. View.mu must be held.
func (v *View) died(podName string, died bool) {
	if died {
		v.tell(event{kind: replicaDied, podName: podName})
	}
}

// regroup draws up the members anew. View.mu must be held.
func (v *View) regroup() {
	var others []member
	for name, p := range v.pods {
		l := &p.lease
		if l.there && l.group == v.group && !p.gone && !l.ended && l.renewal.holder != "" && !p.isOver(l.renewal.holder) {
			others = append(others, member{podName: name, leaving: l.leaving, plugins: l.plugins})
		}
	}
	next := newMembers(member{podName: v.self.PodName, leaving: v.leaving, plugins: v.plugins}, others)
	if !next.equal(v.members.Load()) {
		v.members.Store(next)
		v.tell(event{kind: replicasChanged})
	}
}
