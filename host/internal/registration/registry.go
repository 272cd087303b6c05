package registration

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Options are the settings of a Registry. All are required, unless a field says otherwise.
type Options struct {
	// Cache watches the registrations.
	Cache cache.Cache
	// Client writes statuses, and reads and watches what registrations refer to. It must read without a cache.
	Client client.WithWatch
	// Recorder of the events of registrations.
	Recorder events.EventRecorder
	// ClusterDomain is the domain of the names of Services, such as cluster.local.
	ClusterDomain string
	// Elected tells whether this replica is the one that writes statuses.
	Elected func() bool
	// Deployers tells which plugin serves a type, its version, and how many replicas have it; false if none does.
	Deployers func(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool)
	// Changed is told the types, sorted, for which For answers something else from now on. It is called from one goroutine and must
	// not block. Nil if nobody wants to know.
	Changed func(types []v1alpha1.DeployItemType)
	// Version of the host, which hooks are told.
	Version string
	// Metrics count the requests to hooks. Nil for nobody.
	Metrics *httphook.Metrics
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Log takes what happens to the registrations.
	Log *slog.Logger
}

// Registry has the hooks of DeployerRegistrations. Its methods may be called from many goroutines at the same time.
type Registry struct {
	options Options
	table   atomic.Pointer[table] // nil as long as the registrations are not known
	synced  chan struct{}
	isKnown func()        // closes synced, once
	wake    chan struct{} // takes one signal that there is something to look at

	mu      sync.Mutex
	problem error // why the registrations are not known

	// Those below belong to the goroutine of Start.
	bindings map[string]*binding // by name of the registration
	writes   backoff
	watches  sync.WaitGroup
}

var (
	_ manager.Runnable               = (*Registry)(nil)
	_ manager.LeaderElectionRunnable = (*Registry)(nil)
)

// New returns a Registry that is to be added to its manager.
func New(options Options) *Registry {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Changed == nil {
		options.Changed = func([]v1alpha1.DeployItemType) {}
	}
	synced := make(chan struct{})
	return &Registry{
		options:  options,
		synced:   synced,
		isKnown:  sync.OnceFunc(func() { close(synced) }),
		wake:     make(chan struct{}, 1),
		problem:  errors.New("the DeployerRegistrations are being listed"),
		bindings: map[string]*binding{},
	}
}

// For returns the hook of a type; nil if none is registered. The error is a *NotReadyError: there is a hook, or there may be one, and
// it cannot be called. It does not block.
func (r *Registry) For(t v1alpha1.DeployItemType) (*httphook.Hook, error) {
	known := r.table.Load()
	if known == nil {
		return nil, &NotReadyError{Reason: ReasonStarting, Message: r.Ready().Error()}
	}
	answer := (*known)[t]
	if answer.problem != nil {
		return nil, answer.problem
	}
	return answer.hook, nil
}

// Ready is why the registrations are not known; nil once they are. That a hook cannot be called is another matter.
func (r *Registry) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}

// Synced returns a channel that is closed when the registrations are known for the first time.
func (r *Registry) Synced() <-chan struct{} { return r.synced }

// LookAgain has the statuses looked at, because what Elected or Deployers tell may have changed. It does not block.
func (r *Registry) LookAgain() {
	select {
	case r.wake <- struct{}{}:
	default: // there is a signal already
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica calls hooks.
func (r *Registry) NeedLeaderElection() bool { return false }

// answer is what For says of a type: a hook or a problem.
type answer struct {
	hook    *httphook.Hook
	problem *NotReadyError
}

func (a answer) equal(other answer) bool {
	return a.hook == other.hook && a.problem.says(other.problem)
}

// table has the answers for all types with a hook.
type table map[v1alpha1.DeployItemType]answer

// changedFrom are the types whose answers differ from those before, sorted.
func (t table) changedFrom(before table) []v1alpha1.DeployItemType {
	changed := map[v1alpha1.DeployItemType]bool{}
	for _, one := range []table{t, before} {
		for itemType := range one {
			if !t[itemType].equal(before[itemType]) {
				changed[itemType] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// publish lets For answer from a table, and tells whom it concerns.
func (r *Registry) publish(next table) {
	var before table
	if last := r.table.Swap(&next); last != nil {
		before = *last
	}
	r.mu.Lock()
	r.problem = nil
	r.mu.Unlock()
	r.isKnown()
	if changed := next.changedFrom(before); len(changed) > 0 {
		r.options.Changed(changed)
	}
}

// unpublish makes For answer nothing but an error.
func (r *Registry) unpublish(problem error) {
	r.mu.Lock()
	r.problem = problem
	r.mu.Unlock()
	if last := r.table.Swap(nil); last != nil {
		r.options.Log.Error("the DeployerRegistrations are not known any more", "error", problem.Error())
	}
}
