package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/replica"
)

var (
	// ErrHeld says that another replica holds the lock, or may be about to. Listener.Freed tells when to try again.
	ErrHeld = errors.New("another replica holds the lock")
	// ErrLost says that another replica has the lock that was held here, or may have it.
	ErrLost = errors.New("the lock was lost")
)

// Replicas is what a Locker needs to know of the replicas; see replica.Replicas.
type Replicas interface {
	PodName() string
	Process() string
	Valid() bool
	Verdict(podName, process string) replica.Verdict
	Rank(plugin, key string) int
	Serve(plugins []string)
}

// Listener hears of locks that others give back or take. Its methods must not block.
type Listener interface {
	// Freed: the lock can be had now that somebody had when it was asked for.
	Freed(key Key)
	// Lost: the lock was held here, and is not any more.
	Lost(key Key)
}

// Options are the settings of a Locker. All are required but Prefix.
type Options struct {
	// API reads and writes SyncObjects without a cache.
	API objects
	// Prefix comes before the names of the plugins in those of the locks.
	Prefix   string
	Replicas Replicas
	Listener Listener
	Clock    clock.PassiveClock
	Log      *slog.Logger
}

// Locker takes and gives back the locks of one replica. Its methods may be called at the same time, but for one plugin and item: of
// those who work on an item of a plugin there is one at a time.
//
// It is an event handler of the watch of SyncObjects and a listener of the replicas; it needs both to hear of the locks of others.
type Locker struct {
	api      store
	prefix   string
	replicas Replicas
	listener Listener
	log      *slog.Logger

	mu      sync.Mutex
	records map[types.NamespacedName]record // by name of the SyncObject
	held    map[owner]*Lock
	// waiting are the locks that were asked for in vain.
	waiting map[types.NamespacedName]Key
	// stale are the locks that are not held, but may name this process: they were counted as lost, or taken without an answer.
	stale map[owner]Key
	// last are the holders of locks whose objects were deleted.
	last  lastHolders
	stats map[string]*Stats
	// closed: the host is stopping; no lock is taken any more.
	closed bool
}

// New returns a Locker that knows of no locks yet.
func New(o Options) *Locker {
	return &Locker{
		api:    store{api: o.API, clock: o.Clock, prefix: o.Prefix, podName: o.Replicas.PodName(), process: o.Replicas.Process()},
		prefix: o.Prefix, replicas: o.Replicas, listener: o.Listener, log: o.Log,
		records: map[types.NamespacedName]record{},
		held:    map[owner]*Lock{},
		waiting: map[types.NamespacedName]Key{},
		stale:   map[owner]Key{},
		last:    lastHolders{clock: o.Clock, of: map[types.NamespacedName]lastHolder{}},
		stats:   map[string]*Stats{},
	}
}

// View is what is known of a lock without a request.
type View int

const (
	// Free means that nobody has the lock, or somebody dead.
	Free View = iota
	// Ours means that it is held here.
	Ours
	// Elsewhere means that a replica that is alive has it, or that this one cannot show that it is alive itself. Listener.Freed tells
	// when that is not so any more.
	Elsewhere
	// Settled means that nobody has it, and its last holder has left nothing to do with the item as it is.
	Settled
)

// Look tells what is known of a lock. version is the resourceVersion of the item.
func (l *Locker) Look(key Key, version string) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.held[key.owner()]; held != nil && held.key.UID == key.UID {
		return Ours
	}
	name := objectName(l.prefix, key)
	known, exists := l.records[name]
	switch {
	case !l.replicas.Valid(): // there is no use in reading what cannot be worked on
		l.waiting[name] = key
		return Elsewhere
	case !exists:
		return Free
	case !l.available(known):
		if _, waits := l.waiting[name]; !waits && known.process == "" {
			l.log.Info("a deploy item waits for a lock that another implementation holds", "lock", name.String(),
				"deployitem", key.Item.String(), "holder", known.podName)
		}
		l.waiting[name] = key
		return Elsewhere
	case known.podName == "" && known.settled != "" && !newer(version, known.settled):
		return Settled
	default:
		return Free
	}
}

// Left is what the last holder of a lock that is Settled has left beside the version of the item; empty if there is nothing.
func (l *Locker) Left(key Key) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[objectName(l.prefix, key)].note
}

// Holds tells whether a lock is held here.
func (l *Locker) Holds(key Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held[key.owner()]
	return held != nil && held.key.UID == key.UID
}

// available tells whether a lock that is not held here can be taken. One that names this very process is left from a time in which it
// was counted as lost.
func (l *Locker) available(known record) bool {
	return known.podName == "" || known.podName == l.replicas.PodName() ||
		l.replicas.Verdict(known.podName, known.process) == replica.Dead
}

// Rank is the place of this replica among those that could work on an item; 0 if it comes first, or there is no other one.
func (l *Locker) Rank(key Key) int { return l.replicas.Rank(key.Plugin, string(key.UID)) }

// Serve tells the other replicas which plugins take calls here.
func (l *Locker) Serve(plugins []string) { l.replicas.Serve(plugins) }

// Acquire takes a lock; one that is held here already costs nothing. It is in use until Keep, Release or Forget. The error is ErrHeld
// if somebody else has it, or else that of the API server.
func (l *Locker) Acquire(ctx context.Context, key Key) (*Lock, error) {
	name := objectName(l.prefix, key)
	l.mu.Lock()
	held := l.held[key.owner()]
	holds := held != nil && held.key.UID == key.UID
	known, exists := l.records[name]
	if !l.replicas.Valid() || holds && held.releasing || !holds && (l.closed || exists && !l.available(known)) {
		l.waiting[name] = key
		l.mu.Unlock()
		return nil, ErrHeld
	}
	if holds && !held.doubtful {
		held.inUse = true
		l.mu.Unlock()
		return held, nil
	}
	l.mu.Unlock()

	object, err := l.api.take(ctx, key, known)
	switch {
	case err == nil:
		return l.taken(name, key, known, recordOf(key, object))
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), exists && apierrors.IsNotFound(err):
		if !l.contended(name, key, known) {
			l.inspect(ctx, name, key)
		}
		return nil, ErrHeld
	case !exists && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return l.withoutObject(name, key)
	default:
		l.mu.Lock()
		l.stale[key.owner()] = key // it may have been taken all the same
		l.mu.Unlock()
		return nil, fmt.Errorf("take lock %s: %w", name, err)
	}
}

// taken remembers a lock that was taken, unless it was lost by the time that this is known.
func (l *Locker) taken(name types.NamespacedName, key Key, before, now record) (*Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest, known := l.records[name]
	if known && newer(newest.version, now.version) && !l.isOurs(newest) || !l.replicas.Valid() {
		l.waiting[name] = key
		return nil, ErrHeld
	}
	if !known || newer(now.version, newest.version) {
		l.records[name] = now
	}
	stats := l.statsOf(key.Plugin)
	stats.Acquired++
	if before.podName != "" && !l.isOurs(before) {
		stats.TakenOver++
		l.log.Info("took the lock of a holder that is dead over", "lock", name.String(), "deployitem", key.Item.String(),
			"holder", before.podName, "process", before.process)
	}
	return l.hold(name, key), nil
}

// withoutObject holds a lock without its object, which cannot be created in a namespace that is being deleted. Who was the holder when
// the object was deleted does without, as long as it is alive, and else the replica that the item prefers: they agree on it but for
// moments, and what it writes is conditional as ever.
func (l *Locker) withoutObject(name types.NamespacedName, key Key) (*Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.goesWithout(name, key) || !l.replicas.Valid() {
		l.waiting[name] = key
		return nil, ErrHeld
	}
	lock := l.hold(name, key)
	lock.noObject = true
	return lock, nil
}

// goesWithout tells whether this replica is the one to work on an item whose lock has no object.
func (l *Locker) goesWithout(name types.NamespacedName, key Key) bool {
	last, known := l.last.get(name)
	switch {
	case known && l.isOurs(last):
		return true
	case known && !l.available(last):
		return false
	default:
		return l.Rank(key) == 0
	}
}

func (l *Locker) hold(name types.NamespacedName, key Key) *Lock {
	if old := l.held[key.owner()]; old != nil { // of an item of the same name that is gone
		l.drop(old)
	}
	delete(l.waiting, name)
	delete(l.stale, key.owner())
	lock := &Lock{locker: l, key: key, name: name, since: l.api.clock.Now(), inUse: true, lost: make(chan struct{})}
	l.held[key.owner()] = lock
	return lock
}

// contended notes that somebody else came first. The watch tells what has become of the lock, if it has not done so already. It
// reports false if that was expected of it before, and there is still nothing to be seen of an object that exists.
func (l *Locker) contended(name types.NamespacedName, key Key, tried record) bool {
	l.mu.Lock()
	l.statsOf(key.Plugin).Conflicts++
	_, again := l.waiting[name]
	unseen := tried.version == "" && l.records[name].version == ""
	l.waiting[name] = key
	moved := l.records[name].version != tried.version
	l.mu.Unlock()
	if moved {
		l.listener.Freed(key)
	}
	return !again || !unseen
}

// inspect reads the object that has the name of a lock which the watch does not show: the watch is late, or the object is none of the
// locks of here. If that cannot be found out it is tried again with the lock.
func (l *Locker) inspect(ctx context.Context, name types.NamespacedName, key Key) {
	object, err := l.api.get(ctx, name)
	if err != nil {
		l.log.Debug("an object that has the name of a lock could not be read", "lock", name.String(), "error", err.Error())
		return
	}
	if object == nil {
		return
	}
	if locked, ours := keyOf(l.prefix, object); ours && locked == key {
		l.observe(key, recordOf(key, object))
		return
	}
	l.log.Warn("a deploy item is not worked on: a SyncObject has the name of its lock and is none, by its spec; delete it",
		"lock", name.String(), "deployitem", key.Item.String(), "prefix", object.Spec.Prefix, "kind", object.Spec.Kind, "name", object.Spec.Name)
}

// drop ends a lock without a write and without a word to the listener.
func (l *Locker) drop(lock *Lock) {
	if l.held[lock.key.owner()] == lock {
		delete(l.held, lock.key.owner())
		close(lock.lost)
	}
}

// isOurs tells whether a lock names this process as its holder.
func (l *Locker) isOurs(known record) bool {
	return known.podName == l.replicas.PodName() && known.process == l.replicas.Process()
}

func (l *Locker) statsOf(plugin string) *Stats {
	if l.stats[plugin] == nil {
		l.stats[plugin] = &Stats{Plugin: plugin}
	}
	return l.stats[plugin]
}

// Stats are the figures of all plugins that have had a lock, by name.
func (l *Locker) Stats() []Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := map[string]int{}
	for who := range l.held {
		held[who.plugin]++
	}
	var all []Stats
	for plugin, stats := range l.stats {
		s := *stats
		s.Held = held[plugin]
		all = append(all, s)
	}
	slices.SortFunc(all, comparePlugin)
	return all
}

// Held is a lock that is held here.
type Held struct {
	Key Key
	// Since is when it was taken.
	Since time.Time
}

// Held returns the locks that are held, in no order.
func (l *Locker) Held() []Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Held, 0, len(l.held))
	for _, lock := range l.held {
		all = append(all, Held{Key: lock.key, Since: lock.since})
	}
	return all
}
