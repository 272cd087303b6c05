package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

const (
	// DefaultMaxPerTarget is how many watches there are on one target, unless MaxPerTarget says otherwise.
	DefaultMaxPerTarget = 100

	// DefaultPause is the least time between two wake-ups of an item, unless Pause says otherwise.
	DefaultPause = 500 * time.Millisecond

	// grace is how long a watch goes on that nobody needs: the next call may need it again.
	grace = 10 * time.Second
	// expiry is how long an item follows objects that does not come again.
	expiry = 15 * time.Minute
	// sweepEvery is how often that is looked for.
	sweepEvery = 3 * time.Minute
)

// Seen is an object as a deploy item saw it, which waits for it to change.
type Seen struct {
	// Client of the target that the object is on.
	Client *target.Client
	// Mapping tells where the target serves it.
	Mapping target.Mapping
	Key     object.Key
	// ResourceVersion of the object; empty if it did not exist.
	ResourceVersion string
	// Labelled says that the object had the label of deploy items, so that the watch that they share tells about it.
	Labelled bool
}

// SeenOf returns what to watch of an object that exists.
func SeenOf(client *target.Client, mapping target.Mapping, key object.Key, live metav1.Object) Seen {
	_, labelled := live.GetLabels()[owner.Label]
	return Seen{Client: client, Mapping: mapping, Key: key, ResourceVersion: live.GetResourceVersion(), Labelled: labelled}
}

// Set is what the deploy items of a plugin follow. It is safe for concurrent use.
type Set struct {
	clock        clock.Clock
	maxPerTarget int
	pause        time.Duration
	logger       logr.Logger

	// running is held by Run.
	running chan struct{}
	// kick makes Run look at what is to be done.
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

// item is a deploy item and what it follows.
type item struct {
	name    types.NamespacedName
	follows []*follow
	// woken: the item was woken since it last said what it follows.
	woken bool
	// wokenAt stays until the item expires, for the pause.
	wokenAt time.Time
	expires time.Time
}

// follow is an object that an item follows. It has no stream if there are too many.
type follow struct {
	item   *item
	seen   Seen
	stream *stream
}

// Option sets up a Set.
type Option func(*Set)

// MaxPerTarget bounds the watches on each target. What does not fit is not watched; zero turns watching off.
func MaxPerTarget(n int) Option { return func(s *Set) { s.maxPerTarget = n } }

// Pause sets the least time between two wake-ups of an item, so that an object that changes all the time does not keep
// workers busy.
func Pause(least time.Duration) Option { return func(s *Set) { s.pause = least } }

// WithClock replaces the clock.
func WithClock(clk clock.Clock) Option { return func(s *Set) { s.clock = clk } }

// WithLogger tells the logger why watches fail. The default is silence, as nothing depends on watches.
func WithLogger(logger *slog.Logger) Option {
	return func(s *Set) { s.logger = logr.FromSlogHandler(logger.Handler()) }
}

// New returns a Set in which nothing is followed. It watches while Run runs.
func New(opts ...Option) *Set {
	s := &Set{
		clock:        clock.RealClock{},
		maxPerTarget: DefaultMaxPerTarget,
		pause:        DefaultPause,
		logger:       logr.Discard(),
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

// Follow says which objects a deploy item waits for, instead of those that it followed before; none ends that. It is
// woken once when one of them is no longer as it was seen, even if that happened before. Then it is not woken again
// until it calls Follow, which it does whenever it has read its objects. What it follows is forgotten after a quarter
// of an hour. Follow does not wait for a target.
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
// fits sdk.Watcher. What is followed stays when Run ends, and is looked at when it begins again. A second Run waits for
// the end of the first.
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

// step does what is due, and returns which items to wake and when there is more to do.
func (s *Set) step(ctx context.Context, streams *sync.WaitGroup) (toWake []types.NamespacedName, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	next = sweepEvery
	// due tells whether a time has come, and otherwise makes sure that the next step is not later.
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

// sweep forgets items that have not come for long, and those that follow nothing.
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
