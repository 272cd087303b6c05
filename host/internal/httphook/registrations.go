package httphook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
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
	// refreshInterval is the pause between two reads of everything without a watch: the secrets of a hook and the
	// object with its address, the served plugins and their replicas, and the kind itself.
	refreshInterval = 10 * time.Second
	// minRetry is the first pause after a hook could not be made ready.
	minRetry = time.Second
)

// RegistrationOptions are the settings of Registrations. All are required.
type RegistrationOptions struct {
	// ClusterDomain is the domain of the names of Services, such as cluster.local.
	ClusterDomain string
	// Elected reports whether this replica writes statuses.
	Elected func() bool
	// Deployers returns the plugin of a type, its version, and its number of replicas; false if none serves it.
	Deployers func(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool)
	// Changed is called with the types, sorted, for which For may answer differently from now on; first: the
	// registrations were unknown before. It must not block.
	Changed func(types []v1alpha1.DeployItemType, first bool)
	// Version of the host, for hooks.
	Version string
	// Metrics count the requests to hooks.
	Metrics *Metrics
	// Log takes changes of the registrations.
	Log *slog.Logger
}

// Registrations have the hooks of DeployerRegistrations. Their methods may be called from many goroutines at the same
// time.
type Registrations struct {
	options RegistrationOptions
	manager manager.Manager
	// The cache of registrations; statuses are written by it.
	cluster client.Client
	// live reads the references of registrations. They are in no cache.
	live     client.Reader
	recorder events.EventRecorder
	interval time.Duration // is refreshInterval
	synced   chan struct{}
	sync     func() // closes synced, once
	state    atomic.Pointer[state]
}

// state is a view of the registrations. It does not change.
type state struct {
	// The reason why there is no view yet; nil if there is one.
	unknown error
	entries map[string]*entry // those with a hook, by name
	// owners are the oldest entries of each type.
	owners map[v1alpha1.DeployItemType]*entry
}

// entry is a registration with a hook. It does not change.
type entry struct {
	name   string
	inputs inputs
	faults faults
	hook   *Hook // nil if there are faults
}

// NewRegistrations returns Registrations for the manager.
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
	r := &Registrations{
		options: o, cluster: cluster, live: live, recorder: recorder, interval: refreshInterval,
		synced: synced, sync: sync.OnceFunc(func() { close(synced) }),
	}
	r.state.Store(&state{unknown: errors.New("the DeployerRegistrations are being listed")})
	return r
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica calls hooks.
func (r *Registrations) NeedLeaderElection() bool { return false }

// For returns the hook of a type; nil if none is registered. The error is a *NotReadyError: there is a hook, or there
// may be one, and it cannot be called. It does not block.
func (r *Registrations) For(t v1alpha1.DeployItemType) (*Hook, error) {
	current := r.state.Load()
	if current.unknown != nil {
		return nil, &NotReadyError{Reason: reasonStarting, Message: current.unknown.Error()}
	}
	switch owner := current.owners[t]; {
	case owner == nil:
		return nil, nil //nolint:nilnil // no hook is an ordinary case and no error
	case owner.hook == nil:
		return nil, owner.problem()
	default:
		return owner.hook, nil
	}
}

// Ready is the reason why the registrations are unknown; nil once they are known, even if their hooks cannot be called.
func (r *Registrations) Ready() error { return r.state.Load().unknown }

// Synced returns a channel closed when the registrations are known for the first time.
func (r *Registrations) Synced() <-chan struct{} { return r.synced }

// Start reconciles registrations until ctx ends, from when their kind is there. It blocks until then.
func (r *Registrations) Start(ctx context.Context) error {
	if err := r.awaitKind(ctx); err != nil {
		return nil //nolint:nilerr // ctx has ended, and nothing else ends the waiting
	}
	options := controller.Options{
		Reconciler:  r,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minRetry, r.interval),
		// A fault of a registration is logged when it changes, and not with each attempt.
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
		RecoverPanic:   new(false),
	}
	options.DefaultFromConfig(r.manager.GetControllerOptions())
	registrations, err := controller.NewUnmanaged("deployerregistrations", options)
	if err != nil {
		return fmt.Errorf("create controller of DeployerRegistrations: %w", err)
	}
	var kind client.Object = &v1alpha1.DeployerRegistration{}
	all := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }
	err = errors.Join(
		registrations.Watch(source.Kind(r.manager.GetCache(), kind, handler.EnqueueRequestsFromMapFunc(all),
			predicate.GenerationChangedPredicate{})),
		// An empty cluster is known after the first reconcile, too.
		registrations.Watch(source.Func(func(_ context.Context, queue queue) error {
			queue.Add(reconcile.Request{})
			return nil
		})),
	)
	if err != nil {
		return fmt.Errorf("watch DeployerRegistrations: %w", err)
	}
	return registrations.Start(ctx)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// awaitKind waits until registrations can be listed; its only error is the end of ctx. Without the kind there are none.
// Without the right to list them they are unknown.
func (r *Registrations) awaitKind(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, r.interval, true, func(ctx context.Context) (bool, error) {
		list := &v1alpha1.DeployerRegistrationList{}
		// The API server is asked before the cache, because the cache waits in silence for a missing right.
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
			r.know(&state{})
		// Otherwise there were none a moment ago.
		case r.Ready() != nil || apierrors.IsForbidden(err):
			problem := fmt.Errorf("the DeployerRegistrations cannot be listed, "+
				"which the host needs to get, list and watch: %w", err)
			if before := r.know(&state{unknown: problem}); before.unknown == nil ||
				before.unknown.Error() != problem.Error() {
				r.options.Log.Error("HTTP hooks are not known", "error", problem.Error())
			}
		}
		return err == nil, nil //nolint:nilerr // it is tried again
	})
}

// know lets For answer from another state, and returns the one before.
func (r *Registrations) know(next *state) (before *state) {
	before = r.state.Swap(next)
	if next.unknown == nil {
		r.sync()
	}
	return before
}

// Reconcile makes the hooks of all registrations ready to be called, and writes the results into the statuses. The rate
// limiter retries failures.
func (r *Registrations) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.DeployerRegistrationList{}
	if err := r.cluster.List(ctx, list); err != nil {
		return reconcile.Result{}, fmt.Errorf("list DeployerRegistrations: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.DeployerRegistration) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	before := r.state.Load()
	next := &state{entries: map[string]*entry{}, owners: map[v1alpha1.DeployItemType]*entry{}}
	var errs []error
	for i := range list.Items {
		registration := &list.Items[i]
		if registration.Spec.Hook == nil {
			continue
		}
		e := r.prepare(ctx, registration, before.entries[registration.Name])
		next.entries[e.name] = e
		for _, t := range registration.Spec.Types {
			next.owners[t] = cmp.Or(next.owners[t], e)
		}
		if e.hook == nil {
			errs = append(errs, e.problem())
		}
	}
	// The host stops, and that says nothing about the hooks.
	if ctx.Err() != nil {
		return reconcile.Result{}, context.Cause(ctx)
	}
	r.know(next)
	r.announce(before, next)
	for i := range list.Items {
		errs = append(errs, r.report(ctx, &list.Items[i]))
	}
	return reconcile.Result{RequeueAfter: r.interval}, errors.Join(errs...)
}

// announce logs and reports the changes.
func (r *Registrations) announce(before, next *state) {
	for name, e := range next.entries {
		switch log := r.options.Log.With("registration", name); {
		case e == before.entries[name]:
		case e.hook == nil:
			log.Warn("an HTTP hook is not ready", "reason", e.faults[0].reason, "error", e.faults.String())
		default:
			log.Info("an HTTP hook is ready", "url", e.hook.URL())
		}
	}
	for name := range before.entries {
		if next.entries[name] == nil {
			r.options.Log.Info("an HTTP hook is not registered any more", "registration", name)
			r.options.Metrics.forget(name)
		}
	}
	changed := sets.KeySet(before.owners).Union(sets.KeySet(next.owners))
	for t := range changed {
		if before.owners[t] == next.owners[t] {
			changed.Delete(t)
		}
	}
	if changed.Len() > 0 {
		r.options.Changed(sets.List(changed), before.unknown != nil)
	}
}
