package lock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
	// maxLast and lastTime bound the memory of locks with a deleted object: their holder may live on without a plugin for
	// the item.
	maxLast  = 1000
	lastTime = 10 * time.Minute
)

var (
	// ErrHeld reports a lock in the hands of another replica, now or in a moment. After Listener.Freed, try again.
	ErrHeld = errors.New("another replica holds the lock")
	// ErrLost reports a lock that was held here, and may be in the hands of another replica.
	ErrLost = errors.New("the lock was lost")
)

// Membership is the knowledge of a Locker about the replicas; see Replicas.
type Membership interface {
	PodName() string
	Process() string
	Valid() bool
	Alone() bool
	SeemsDead(podName, process string) bool
	IsDead(ctx context.Context, podName, process string) (bool, error)
	Rank(plugin, key string) int
	Serve(plugins []string)
}

// Listener hears of locks released or taken by other replicas. Its methods must not block.
type Listener interface {
	// Freed reports that a lock which was requested in vain is available.
	Freed(key Key)
	// Lost reports that a lock is no longer held here.
	Lost(key Key)
}

// API reads and writes SyncObjects without a cache.
type API interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error
	Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error
	Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// Options are the settings of a Locker. All are required but Prefix.
type Options struct {
	API API
	// Prefix comes before the names of the plugins in those of the locks.
	Prefix   string
	Replicas Membership
	Listener Listener
	Metrics  *Metrics
	Log      *slog.Logger
}

// Locker acquires and releases the locks of one replica. Its methods may be called concurrently, except for the same
// plugin and item: the caller works on an item of a plugin once at a time.
//
// Watch brings the locks of other replicas, ReplicasChanged a change of the replicas.
type Locker struct {
	options Options

	mu sync.Mutex
	// records are the SyncObjects, from the watch or the last write of this process. They are never modified.
	records map[Key]*v1alpha1.SyncObject
	// mine are the locks of this process: held, about to be taken, or naming it as their holder.
	mine map[owner]*Lock
	// waiting are the locks requested in vain, until Look finds them free: the listener hears when they are available.
	waiting map[Key]struct{}
	// last are the objects of locks that were deleted with a holder, by their keys.
	last *cache.LRUExpireCache
	// closed: the host is stopping and takes no lock any more.
	closed bool
}

// New returns a Locker without any locks.
func New(o Options) *Locker {
	return &Locker{
		options: o, records: map[Key]*v1alpha1.SyncObject{}, mine: map[owner]*Lock{}, waiting: map[Key]struct{}{},
		last: cache.NewLRUExpireCache(maxLast),
	}
}

// View is the state of a lock as far as it is known without a request.
type View int

const (
	// Free means that no replica holds the lock, or its holder seems to be dead.
	Free View = iota
	// Ours means that this replica holds the lock.
	Ours
	// Elsewhere means that a live replica holds the lock, or this replica is not valid itself. Listener.Freed reports the
	// end of this state.
	Elsewhere
	// Settled means that the lock is free, and its last holder has left nothing to do for this version of the item.
	Settled
)

// Look returns the state of a lock. version is the resourceVersion of the item.
func (l *Locker) Look(key Key, version string) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.recorded(key)
	settled := known.Annotations[AnnotationSettled]
	switch {
	case l.holds(key):
		return Ours
	case !l.options.Replicas.Valid():
		// Reading an item is useless as long as no work on it may begin.
		l.waiting[key] = struct{}{}
		return Elsewhere
	case !l.available(known):
		if _, waits := l.waiting[key]; !waits && processOf(known) == "" {
			l.options.Log.Info("a deploy item waits for a lock of another implementation",
				"lock", l.nameOf(key).String(), "deployitem", key.Item.String(), "holder", known.Spec.PodName)
		}
		l.waiting[key] = struct{}{}
		return Elsewhere
	}
	delete(l.waiting, key)
	switch {
	case known.Spec.PodName == "" && settled != "" && !contract.Newer(version, settled):
		return Settled
	default:
		return Free
	}
}

// Holds reports whether a lock is held here.
func (l *Locker) Holds(key Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds(key)
}

func (l *Locker) holds(key Key) bool {
	lock := l.mine[key.owner()]
	return lock != nil && lock.held && lock.key == key
}

// recorded returns the SyncObject of a lock; an empty one if there is none.
func (l *Locker) recorded(key Key) *v1alpha1.SyncObject {
	if object := l.records[key]; object != nil {
		return object
	}
	return &v1alpha1.SyncObject{}
}

// available reports whether a lock not held here seems to be free, or names the own pod: a lock of an earlier process,
// or a lost one.
func (l *Locker) available(known *v1alpha1.SyncObject) bool {
	holder, replicas := known.Spec.PodName, l.options.Replicas
	return holder == "" || holder == replicas.PodName() || replicas.SeemsDead(holder, processOf(known))
}

// isOurs reports whether a lock names this process as its holder.
func (l *Locker) isOurs(known *v1alpha1.SyncObject) bool {
	return known.Spec.PodName == l.options.Replicas.PodName() && processOf(known) == l.options.Replicas.Process()
}

// Rank is the place of this replica among the replicas with the plugin of an item, beginning with 0.
func (l *Locker) Rank(key Key) int { return l.options.Replicas.Rank(key.Plugin, string(key.UID)) }

// Serve announces to the other replicas the plugins that take calls here.
func (l *Locker) Serve(plugins []string) {
	for _, plugin := range plugins {
		l.options.Metrics.Add(plugin)
	}
	l.options.Replicas.Serve(plugins)
}

// nameOf is the name of the SyncObject of a lock.
func (l *Locker) nameOf(key Key) types.NamespacedName { return objectName(l.options.Prefix, key) }

// Held is a lock of this replica. The status page shows it as JSON.
type Held struct {
	Plugin    string    `json:"plugin"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Since is the time of the acquisition.
	Since time.Time `json:"since"`
}

// Held returns the locks of this replica, the oldest first.
func (l *Locker) Held() (all []Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range l.mine {
		if key := lock.key; lock.held {
			all = append(all, Held{key.Plugin, key.Item.Namespace, key.Item.Name, key.UID, lock.since.UTC()})
		}
	}
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}
