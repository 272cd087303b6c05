package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

const (
	// maxPerTarget is the greatest number of watches on one target. Objects beyond it are not watched. Half of them are
	// for waiting items alone.
	maxPerTarget = 100
	// maxKept is the greatest number of objects of finished items. Items beyond it are not watched.
	maxKept = 100_000

	// DefaultPause is the least time between two wake-ups of an item without Pause.
	DefaultPause = 500 * time.Millisecond

	// grace is the time until the end of an unused watch: the next call may need it again.
	grace = 10 * time.Second
	// expiry is the time until the end of an item's follows without another Follow.
	expiry = 15 * time.Minute
	// sweepEvery is the time between two searches for expired items.
	sweepEvery = 3 * time.Minute
)

// Seen is an object as seen by a deploy item waiting for its change.
type Seen struct {
	// Client of the target of the object.
	Client *target.Client
	// Mapping is its place on the target.
	Mapping target.Mapping
	Key     object.Key
	// ResourceVersion of the object; empty if it did not exist.
	ResourceVersion string
	// Group of the object; empty for one with a watch of its own.
	Group Group
}

// Group is the label selector of objects with a shared watch.
type Group string

const (
	// OfItems are the objects applied by deploy items.
	OfItems Group = owner.Label
	// OfHelm are the objects created by Helm.
	OfHelm Group = "app.kubernetes.io/managed-by=Helm"
)

// SeenOf returns an existing object to watch.
func SeenOf(client *target.Client, mapping target.Mapping, key object.Key, live metav1.Object) Seen {
	seen := Seen{Client: client, Mapping: mapping, Key: key, ResourceVersion: live.GetResourceVersion()}
	if _, ofItem := live.GetLabels()[owner.Label]; ofItem {
		seen.Group = OfItems
	} else if live.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" {
		seen.Group = OfHelm
	}
	return seen
}

// Set has the followed objects of the deploy items of a plugin. It is safe for concurrent use.
type Set struct {
	clock        clock.Clock
	maxPerTarget int
	pause        time.Duration

	// running is held by Run.
	running chan struct{}
	// kick makes Run look for due work.
	kick chan struct{}

	mu      sync.Mutex
	items   map[types.NamespacedName]*item
	streams map[streamKey]*stream
	// perTarget counts the streams.
	perTarget map[*target.Client]int
	// changed are the items to wake.
	changed map[*item]struct{}
	// kept counts the follows of finished items.
	kept  int
	swept time.Time
}

// item is a deploy item with its followed objects.
type item struct {
	name    types.NamespacedName
	follows []*follow
	// finished: the item waits for nothing, and does not expire before it is woken.
	finished bool
	// woken: the item was woken since its last Follow.
	woken bool
	// wokenAt stays until the item expires, for the pause.
	wokenAt time.Time
	expires time.Time
}

// follow is an object followed by an item. It has no stream if there are too many.
type follow struct {
	item   *item
	seen   Seen
	stream *stream
}

// Option sets up a Set.
type Option func(*Set)

// Pause sets the least time between two wake-ups of an item, so that an object with constant changes does not keep
// workers busy.
func Pause(least time.Duration) Option { return func(s *Set) { s.pause = least } }

// New returns a Set without followed objects. It watches during Run.
func New(opts ...Option) *Set {
	s := &Set{
		clock:        clock.RealClock{},
		maxPerTarget: maxPerTarget,
		pause:        DefaultPause,
		running:      make(chan struct{}, 1),
		kick:         make(chan struct{}, 1),
		items:        map[types.NamespacedName]*item{},
		streams:      map[streamKey]*stream{},
		perTarget:    map[*target.Client]int{},
		changed:      map[*item]struct{}{},
	}
	for _, opt := range opts {
		opt(s)
	}
	s.swept = s.clock.Now()
	return s
}

// Follow sets the objects a deploy item waits for, in place of the former ones; none ends that. The item is woken
// once when one of them has changed since it was seen, even before the call. Then it is not woken again until its
// next Follow; deployers call it after each read of the objects. They are forgotten after a quarter of an hour.
// Follow does not wait for a target.
func (s *Set) Follow(name types.NamespacedName, seen []Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(name, seen, false)
}

// Keep is Follow for a finished item and its objects with a Group, which are forgotten only after a wake-up without
// another call. Without a free watch, or with too many objects of all items, they are not followed. If the item had
// other credentials for the same API server before, all finished items with these go on with the new ones.
func (s *Set) Keep(name types.NamespacedName, seen []Seen) {
	seen = slices.DeleteFunc(slices.Clone(seen), func(o Seen) bool { return o.Group == "" })
	s.mu.Lock()
	defer s.mu.Unlock()
	var before []*follow
	if i := s.items[name]; i != nil && i.finished {
		before = i.follows
	}
	if s.kept-len(before)+len(seen) > maxKept {
		seen = nil
	}
	if len(before) > 0 && len(seen) > 0 {
		if old := before[0].seen.Client; old != seen[0].Client && old.SameServer(seen[0].Client) {
			s.renew(old, seen[0].Client)
		}
	}
	s.follow(name, seen, true)
}

// renew has the finished items with the credentials of a client go on with those of another one.
func (s *Set) renew(before, after *target.Client) {
	for _, i := range s.items {
		if !i.finished {
			continue
		}
		for _, f := range i.follows {
			if f.seen.Client == before {
				s.detach(f, s.clock.Now())
				f.seen.Client = after
				s.attach(f)
			}
		}
	}
}

// follow is Follow and Keep. The mutex is held.
func (s *Set) follow(name types.NamespacedName, seen []Seen, finished bool) {
	now := s.clock.Now()
	i := s.items[name]
	switch {
	case i == nil && len(seen) == 0:
		return
	case i == nil:
		i = &item{name: name}
		s.items[name] = i
	}
	before := i.follows
	if i.finished {
		s.kept -= len(before)
	}
	if finished {
		s.kept += len(seen)
	}
	delete(s.changed, i)
	i.follows, i.woken, i.expires = make([]*follow, 0, len(seen)), false, now.Add(expiry)
	i.finished = finished
	for _, object := range seen {
		f := &follow{item: i, seen: object}
		i.follows = append(i.follows, f)
		s.attach(f)
	}
	// Only now, so that no stream loses its last follower in between.
	for _, f := range before {
		s.detach(f, now)
	}
	s.kickRun()
}

// Run watches and calls wake for deploy items until the context ends, and returns its error. wake must not block. It
// fits sdk.WatchRequest.Wake. The followed objects outlive Run, and are compared at its next start. A second Run waits
// for the end of the first.
func (s *Set) Run(ctx context.Context, wake func(namespace, name string)) error {
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return ctx.Err()
	}
	streams := &sync.WaitGroup{}
	defer s.stop(streams)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		toWake, next := s.step(ctx, streams)
		for _, name := range toWake {
			wake(name.Namespace, name.Name)
		}
		timer := s.clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-s.kick:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// step does the due work, and returns the items to wake and the time until the next work.
func (s *Set) step(ctx context.Context, streams *sync.WaitGroup) (toWake []types.NamespacedName, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	next = sweepEvery
	// due reports whether a time has come, and otherwise makes sure of a step by then.
	due := func(at time.Time) bool {
		left := at.Sub(now)
		if left > 0 {
			next = min(next, left)
		}
		return left <= 0
	}
	if due(s.swept.Add(sweepEvery)) {
		s.sweep(now)
	}
	for i := range s.changed {
		if due(i.wokenAt.Add(s.pause)) {
			delete(s.changed, i)
			i.woken, i.wokenAt, i.expires = true, now, now.Add(expiry)
			toWake = append(toWake, i.name)
		}
	}
	for _, stream := range s.streams {
		switch {
		case len(stream.follows) == 0 && due(stream.idleSince.Add(grace)):
			s.drop(stream)
		case stream.cancel == nil:
			s.start(ctx, stream, streams)
		}
	}
	return toWake, next
}

// sweep forgets expired items, and items without followed objects.
func (s *Set) sweep(now time.Time) {
	s.swept = now
	for name, i := range s.items {
		awaited := now.Before(i.expires) || i.finished && !i.woken
		if awaited && (len(i.follows) > 0 || now.Before(i.wokenAt.Add(s.pause))) {
			continue
		}
		if i.finished {
			s.kept -= len(i.follows)
		}
		for _, f := range i.follows {
			s.detach(f, now)
		}
		delete(s.changed, i)
		delete(s.items, name)
	}
}

// changedFor notes that an item must be woken. The mutex is held.
func (s *Set) changedFor(i *item) {
	if !i.woken {
		s.changed[i] = struct{}{}
		s.kickRun()
	}
}

func (s *Set) kickRun() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
