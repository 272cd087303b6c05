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
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
	// maxLast is how many locks are remembered whose objects were deleted, and lastTime how long: a holder that lives on
	// may have no plugin any more for its item.
	maxLast  = 1000
	lastTime = 10 * time.Minute
)

var (
	// ErrHeld says that another replica holds the lock, or may be about to. Listener.Freed tells when to try again.
	ErrHeld = errors.New("another replica holds the lock")
	// ErrLost says that another replica has the lock that was held here, or may have it.
	ErrLost = errors.New("the lock was lost")
)

// Membership is what a Locker needs to know of the replicas; see Replicas.
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

// Listener hears of locks that others give back or take. Its methods must not block.
type Listener interface {
	// Freed: the lock can be had now that somebody had when it was asked for.
	Freed(key Key)
	// Lost: the lock was held here, and is not any more.
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
	Metrics  *telemetry.LockMetrics
	Log      *slog.Logger
}

// Locker takes and gives back the locks of one replica. Its methods may be called at the same time, but for one plugin
// and item: of those who work on an item of a plugin there is one at a time.
//
// It hears of the locks of others by Watch, and of the replicas by ReplicasChanged.
type Locker struct {
	options Options

	mu sync.Mutex
	// records are the SyncObjects as the watch has shown them last, or as they were written here since. They are not
	// changed.
	records map[Key]*v1alpha1.SyncObject
	// mine are the locks that this process holds, takes, or is named in.
	mine map[owner]*Lock
	// waiting are the locks that were asked for in vain, until Look finds them free: the listener is to hear when they
	// can be had.
	waiting map[Key]struct{}
	// last are locks whose objects were deleted while somebody held them, by their keys.
	last *cache.LRUExpireCache
	// closed: the host is stopping; no lock is taken any more.
	closed bool
}

// New returns a Locker that knows of no locks yet.
func New(o Options) *Locker {
	return &Locker{
		options: o, records: map[Key]*v1alpha1.SyncObject{}, mine: map[owner]*Lock{}, waiting: map[Key]struct{}{},
		last: cache.NewLRUExpireCache(maxLast),
	}
}

// View is what is known of a lock without a request.
type View int

const (
	// Free means that nobody has the lock, or somebody who seems to be dead.
	Free View = iota
	// Ours means that it is held here.
	Ours
	// Elsewhere means that a replica that is alive has it, or that this one cannot show that it is alive itself.
	// Listener.Freed tells when that is not so any more.
	Elsewhere
	// Settled means that nobody has it, and its last holder has left nothing to do with the item as it is.
	Settled
)

// Look returns what is known of a lock. version is the resourceVersion of the item.
func (l *Locker) Look(key Key, version string) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known(key)
	settled := known.Annotations[AnnotationSettled]
	switch {
	case l.holds(key):
		return Ours
	case !l.options.Replicas.Valid(): // there is no use in reading what cannot be worked on
		l.waiting[key] = struct{}{}
		return Elsewhere
	case !l.available(known):
		if _, waits := l.waiting[key]; !waits && processOf(known) == "" {
			l.options.Log.Info("a deploy item waits for a lock that another implementation holds",
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

// known returns the SyncObject of a lock; an empty one if there is none.
func (l *Locker) known(key Key) *v1alpha1.SyncObject {
	if object := l.records[key]; object != nil {
		return object
	}
	return &v1alpha1.SyncObject{}
}

// available reports whether a lock that is not held here seems to be free, or this pod's own: that of an earlier
// process, or one that was counted as lost.
func (l *Locker) available(known *v1alpha1.SyncObject) bool {
	holder, replicas := known.Spec.PodName, l.options.Replicas
	return holder == "" || holder == replicas.PodName() || replicas.SeemsDead(holder, processOf(known))
}

// isOurs reports whether a lock names this process as its holder.
func (l *Locker) isOurs(known *v1alpha1.SyncObject) bool {
	return known.Spec.PodName == l.options.Replicas.PodName() && processOf(known) == l.options.Replicas.Process()
}

// Rank is the place of this replica among those that could work on an item; 0 if it comes first, or there is no other
// one.
func (l *Locker) Rank(key Key) int { return l.options.Replicas.Rank(key.Plugin, string(key.UID)) }

// Serve tells the other replicas which plugins take calls here.
func (l *Locker) Serve(plugins []string) {
	for _, plugin := range plugins {
		l.options.Metrics.Add(plugin)
	}
	l.options.Replicas.Serve(plugins)
}

// nameOf is the name of the SyncObject of a lock.
func (l *Locker) nameOf(key Key) types.NamespacedName { return objectName(l.options.Prefix, key) }

// Held is a lock that is held here. The status page shows it as JSON.
type Held struct {
	Plugin    string    `json:"plugin"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Since is when it was taken.
	Since time.Time `json:"since"`
}

// Held returns the locks that are held, the oldest first.
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
