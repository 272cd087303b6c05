package watch

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

const (
	// maxPerTarget is the greatest number of watches on one target. Objects beyond it are not watched.
	maxPerTarget = 100

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
	// Labelled means that the object had the label of deploy items, and so belongs to their shared watch.
	Labelled bool
}

// SeenOf returns an existing object to watch.
func SeenOf(client *target.Client, mapping target.Mapping, key object.Key, live metav1.Object) Seen {
	_, labelled := live.GetLabels()[owner.Label]
	return Seen{Client: client, Mapping: mapping, Key: key, ResourceVersion: live.GetResourceVersion(), Labelled: labelled}
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
	swept   time.Time
}

// item is a deploy item with its followed objects.
type item struct {
	name    types.NamespacedName
	follows []*follow
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

// WithClock replaces the clock.
func WithClock(clk clock.Clock) Option { return func(s *Set) { s.clock = clk } }

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
	delete(s.changed, i)
	i.follows, i.woken, i.expires = make([]*follow, 0, len(seen)), false, now.Add(expiry)
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
// fits sdk.Watcher. The followed objects outlive Run, and are compared at its next start. A second Run waits for the
// end of the first.
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
			i.woken, i.wokenAt = true, now
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
		if now.Before(i.expires) && (len(i.follows) > 0 || now.Before(i.wokenAt.Add(s.pause))) {
			continue
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
