package httphook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// refreshInterval is how often all is looked at that nobody watches: the secrets of a hook and the object that has
	// its address, which plugins are served and where, and whether the kind is there.
	refreshInterval = 10 * time.Second
	// minRetry is the first pause after a hook could not be made ready.
	minRetry = time.Second
)

// RegistrationOptions are the settings of Registrations. All are required.
type RegistrationOptions struct {
	// ClusterDomain is the domain of the names of Services, such as cluster.local.
	ClusterDomain string
	// Elected tells whether this replica is the one that writes statuses.
	Elected func() bool
	// Deployers tells which plugin serves a type, its version, and how many replicas have it; false if none does.
	Deployers func(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool)
	// Changed is told the types, sorted, for which For may answer something else from now on. It must not block.
	Changed func(types []v1alpha1.DeployItemType)
	// Version of the host, which hooks are told.
	Version string
	// Metrics count the requests to hooks.
	Metrics *Metrics
	// Log takes what happens to the registrations.
	Log *slog.Logger
}

// Registrations have the hooks of DeployerRegistrations. Their methods may be called from many goroutines at the same
// time.
type Registrations struct {
	options  RegistrationOptions
	manager  manager.Manager
	cluster  client.Client // reads registrations from the cache, and writes their statuses
	live     client.Reader // reads what they refer to, which is in no cache
	recorder events.EventRecorder
	interval time.Duration // is refreshInterval
	synced   chan struct{}
	sync     func() // closes synced, once

	mu      sync.Mutex
	unknown error             // why the registrations are not known; nil if they are
	entries map[string]*entry // those with a hook, by name
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// entry is what is known of a registration with a hook.
type entry struct {
	registration *v1alpha1.DeployerRegistration
	inputs       inputs
	// hook is nil as long as there is a problem.
	hook    *Hook
	problem *NotReadyError
}

// NewRegistrations returns Registrations that run with the manager.
func NewRegistrations(mgr manager.Manager, options RegistrationOptions) (*Registrations, error) {
	r := newRegistrations(options, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("pergola"))
	r.manager = mgr
	if err := mgr.Add(r); err != nil {
		return nil, fmt.Errorf("set up HTTP hooks: %w", err)
	}
	return r, nil
}

func newRegistrations(
	o RegistrationOptions, cluster client.Client, live client.Reader, recorder events.EventRecorder,
) *Registrations {
	synced := make(chan struct{})
	return &Registrations{
		options: o, cluster: cluster, live: live, recorder: recorder, interval: refreshInterval,
		synced: synced, sync: sync.OnceFunc(func() { close(synced) }),
		unknown: errors.New("the DeployerRegistrations are being listed"), entries: map[string]*entry{},
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica calls hooks.
func (r *Registrations) NeedLeaderElection() bool { return false }

// For returns the hook of a type; nil if none is registered. The error is a *NotReadyError: there is a hook, or there
// may be one, and it cannot be called. It does not block.
func (r *Registrations) For(t v1alpha1.DeployItemType) (*Hook, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unknown != nil {
		return nil, &NotReadyError{Reason: reasonStarting, Message: r.unknown.Error()}
	}
	owner := r.owner(t)
	if owner == nil {
		return nil, nil //nolint:nilnil // no hook is an ordinary case and no error
	}
	if owner.problem != nil {
		return nil, owner.problem
	}
	return owner.hook, nil
}

// owner is the oldest registration with a hook that names a type; nil if there is none. r.mu is locked.
func (r *Registrations) owner(t v1alpha1.DeployItemType) *entry {
	var oldest *entry
	for _, e := range r.entries {
		if slices.Contains(e.registration.Spec.Types, t) && (oldest == nil || e.isOlder(oldest)) {
			oldest = e
		}
	}
	return oldest
}

func (e *entry) isOlder(other *entry) bool {
	a, b := e.registration, other.registration
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// Ready is why the registrations are not known; nil once they are. That a hook cannot be called is another matter.
func (r *Registrations) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown
}

// Synced returns a channel that is closed when the registrations are known for the first time.
func (r *Registrations) Synced() <-chan struct{} { return r.synced }

// Start reconciles registrations until ctx ends, from when their kind is there. It blocks until then.
func (r *Registrations) Start(ctx context.Context) error {
	list, err := r.awaitList(ctx)
	if err != nil {
		return nil //nolint:nilerr // ctx has ended, and nothing else ends the waiting
	}
	for i := range list.Items {
		_ = r.prepare(ctx, &list.Items[i]) // which is noted
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // not all are known, and ctx has ended
	}
	r.know(nil)
	options := controller.Options{
		Reconciler:  r,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, r.interval),
		// What is wrong with a registration is logged when it changes, and not with each attempt.
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
		RecoverPanic:   new(false),
	}
	options.DefaultFromConfig(r.manager.GetControllerOptions())
	registrations, err := controller.NewUnmanaged("deployerregistrations", options)
	if err != nil {
		return fmt.Errorf("create controller of DeployerRegistrations: %w", err)
	}
	var kind client.Object = &v1alpha1.DeployerRegistration{}
	changes := predicate.GenerationChangedPredicate{}
	err = errors.Join(
		registrations.Watch(source.Kind(r.manager.GetCache(), kind, &handler.EnqueueRequestForObject{}, changes)),
		// Nobody tells of one that is deleted before the watch begins.
		registrations.Watch(source.Func(func(_ context.Context, q queue) error {
			for i := range list.Items {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
			return nil
		})),
	)
	if err != nil {
		return fmt.Errorf("watch DeployerRegistrations: %w", err)
	}
	return registrations.Start(ctx)
}

// awaitList returns all registrations as soon as they can be listed; its only error is the end of ctx. As long as there
// is no such kind there are none. Whoever may not list them does not know whether there are any.
func (r *Registrations) awaitList(ctx context.Context) (*v1alpha1.DeployerRegistrationList, error) {
	list := &v1alpha1.DeployerRegistrationList{}
	return list, wait.PollUntilContextCancel(ctx, r.interval, true, func(ctx context.Context) (bool, error) {
		// The API server is asked before the cache, which waits in silence for a right that is missing.
		err := r.live.List(ctx, list, client.Limit(1))
		if err == nil {
			listing, cancel := context.WithTimeout(ctx, readTimeout)
			err = r.cluster.List(listing, list)
			cancel()
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			if r.Ready() != nil {
				r.options.Log.Info("the cluster has no DeployerRegistrations, and HTTP hooks are not called; " +
					"`pergola crds --only deployerregistrations` prints the CustomResourceDefinition that is missing")
			}
			r.know(nil)
		case r.Ready() != nil || apierrors.IsForbidden(err): // else there were none a moment ago
			r.know(fmt.Errorf("the DeployerRegistrations cannot be listed, "+
				"which the host needs to get, list and watch: %w", err))
		}
		return err == nil, nil //nolint:nilerr // it is tried again
	})
}

// know notes why the registrations are not known; nil if they are.
func (r *Registrations) know(problem error) {
	r.mu.Lock()
	before := r.unknown
	r.unknown = problem
	r.mu.Unlock()
	switch {
	case problem == nil:
		r.sync()
	case before == nil || before.Error() != problem.Error():
		r.options.Log.Error("HTTP hooks are not known", "error", problem.Error())
	}
}

// remember notes what has become of a registration; nil if it has no hook any more.
func (r *Registrations) remember(name string, next *entry) {
	none := &entry{registration: &v1alpha1.DeployerRegistration{}}
	r.mu.Lock()
	before := cmp.Or(r.entries[name], none)
	if next == nil {
		delete(r.entries, name)
		next = none
	} else {
		r.entries[name] = next
	}
	r.mu.Unlock()

	log := r.options.Log.With("registration", name)
	isNew := next.hook != before.hook || !reflect.DeepEqual(next.problem, before.problem)
	switch {
	case next == before:
	case next == none:
		log.Info("an HTTP hook is not registered any more")
		r.options.Metrics.forget(name)
	case isNew && next.problem != nil:
		log.Warn("an HTTP hook is not ready", "reason", next.problem.Reason, "error", next.problem.Message)
	case isNew:
		log.Info("an HTTP hook is ready", "url", next.hook.URL())
	}
	if before.hook != nil && before.hook != next.hook {
		before.hook.Close()
	}
	was, is := sets.New(before.registration.Spec.Types...), sets.New(next.registration.Spec.Types...)
	if isNew || !was.Equal(is) {
		r.options.Changed(sets.List(was.Union(is)))
	}
}
