package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// workers is the number of concurrent reconciles.
	workers = 8
	// pause comes before the reconcile after a conflict: it lets the other write end.
	pause = 20 * time.Millisecond
	// sweep is the pause between two looks for items to compare.
	sweep = 10 * time.Second
)

// Options are the settings of a Setter.
type Options struct {
	// PickupTimeout is the time for the pick-up of a job. Zero switches the timeout off.
	PickupTimeout time.Duration
	// ProgressingTimeout is the time of a deployer to end its job after the deadline. Then it counts as dead. Zero
	// switches the timeout off.
	ProgressingTimeout time.Duration
	// Pauses are those before the next job of a failed item; zero for no next job.
	Pauses contract.Pauses
	// CompareInterval is the interval of the jobs of deployed items without a schedule; zero for no such jobs.
	CompareInterval time.Duration
	// Compares reports whether the plugin of a type compares deployed objects with items. Required with CompareInterval.
	Compares func(itemType v1alpha1.DeployItemType) bool
	// Elected reports whether this replica sets and ends the jobs of a type. Two such replicas for a moment do no harm:
	// every write is conditional. Setter.ReplicasChanged announces another answer. Required.
	Elected func(itemType v1alpha1.DeployItemType) bool
	// Unserved returns a sentence for a type without a plugin, with the served types; empty for a served type, and
	// before the plugins have started. Setter.Served announces another answer. Required.
	Unserved func(itemType v1alpha1.DeployItemType) string
	// UnservedGrace is the time before the status of an item reports a type without a plugin: another installation, or a
	// starting replica, may serve it. Required.
	UnservedGrace func() time.Duration
}

// Setter sets jobs in place of a Landscaper, and ends jobs after their timeouts. It decides by the cache, and reads an
// item in full before it writes.
type Setter struct {
	live     client.Reader
	cache    client.Reader // slim deploy items
	client   client.Client
	serves   func(v1alpha1.DeployItemType) bool
	options  Options
	clock    clock.PassiveClock
	recorder events.EventRecorder
	log      *slog.Logger
	memory   *memory
	random   func() float64 // from 0 to 1
	// queue is that of the controller, once it has started.
	queue atomic.Pointer[queue]
	// wake takes one signal to reconcile all items.
	wake chan event.TypedGenericEvent[struct{}]
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Setup adds a Setter to the manager. serves reports whether a plugin serves a type.
func Setup(
	mgr manager.Manager, serves func(v1alpha1.DeployItemType) bool, log *slog.Logger, options Options,
) (*Setter, error) {
	s := &Setter{
		live:     mgr.GetAPIReader(),
		cache:    mgr.GetCache(),
		client:   mgr.GetClient(),
		serves:   serves,
		options:  options,
		clock:    clock.RealClock{},
		recorder: mgr.GetEventRecorder("pergola"),
		log:      log,
		memory:   newMemory(),
		random:   rand.Float64,
		wake:     make(chan event.TypedGenericEvent[struct{}], 1),
	}
	ctrl, err := controller.New("jobs", mgr, controller.Options{Reconciler: s, MaxConcurrentReconciles: workers})
	if err != nil {
		return nil, fmt.Errorf("create job controller: %w", err)
	}
	if err := ctrl.Watch(source.Kind(mgr.GetCache(), &v1alpha1.DeployItem{}, s.changes())); err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	if err := ctrl.Watch(source.TypedChannel(s.wake, s.signals())); err != nil {
		return nil, fmt.Errorf("watch plugins and replicas: %w", err)
	}
	start := source.TypedFunc[reconcile.Request](func(_ context.Context, q queue) error {
		s.queue.Store(&q)
		return nil
	})
	if err := ctrl.Watch(start); err != nil {
		return nil, fmt.Errorf("watch references of deploy items: %w", err)
	}
	if options.CompareInterval > 0 {
		if err := mgr.Add(manager.RunnableFunc(s.compare)); err != nil {
			return nil, fmt.Errorf("add the comparison of deployed items: %w", err)
		}
	}
	return s, nil
}

// compare has items compared at their times, until ctx ends.
func (s *Setter) compare(ctx context.Context) error {
	wait.UntilWithContext(ctx, s.compareDue, sweep)
	return nil
}

// compareDue has the items reconciled whose time of a comparison has come.
func (s *Setter) compareDue(context.Context) {
	queue := s.queue.Load()
	if queue == nil {
		return // the controller has not started
	}
	for _, key := range s.memory.due(s.options.CompareInterval, s.clock.Now()) {
		addLast(*queue, reconcile.Request{NamespacedName: key})
	}
}

// Served has all items reconciled, because a plugin has come to serve these types. It does not block.
func (s *Setter) Served(served []v1alpha1.DeployItemType) {
	s.memory.serve(served, s.clock.Now())
	s.reconcileAll()
}

// ReplicasChanged has all items reconciled, because the answer of Options.Elected may have changed. It does not block.
func (s *Setter) ReplicasChanged() { s.reconcileAll() }

// Repaired sets a job for each of the items with a failed job, and for each with a running job that fails: an object
// that they use has changed. It does not block.
func (s *Setter) Repaired(items []types.NamespacedName) {
	queue := s.queue.Load()
	if queue == nil { // each failed item is reconciled at the start
		return
	}
	for _, key := range items {
		item := &v1alpha1.DeployItem{}
		if err := s.cache.Get(context.Background(), key, item, client.UnsafeDisableDeepCopy); err != nil {
			continue // it is gone
		}
		if contract.Failed(item) || !contract.Finished(item) {
			s.memory.repair(key)
			(*queue).Add(reconcile.Request{NamespacedName: key})
		}
	}
}

// RepairedTypes is Repaired for the items of some types, after a change of their DeployerRegistrations.
func (s *Setter) RepairedTypes(changed []v1alpha1.DeployItemType) {
	list := &v1alpha1.DeployItemList{}
	if err := s.cache.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		s.log.Error("list deploy items in the cache", "error", err)
		return
	}
	var items []types.NamespacedName
	for i := range list.Items {
		if slices.Contains(changed, list.Items[i].Spec.Type) {
			items = append(items, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	s.Repaired(items)
}

func (s *Setter) reconcileAll() {
	select {
	case s.wake <- event.TypedGenericEvent[struct{}]{}:
	default: // there is a signal already
	}
}

// signals puts all items with a possible need into the queue, behind the changed ones.
func (s *Setter) signals() handler.TypedEventHandler[struct{}, reconcile.Request] {
	return handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(ctx context.Context, _ event.TypedGenericEvent[struct{}], q queue) {
			list := &v1alpha1.DeployItemList{}
			if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				if ctx.Err() == nil {
					s.log.Error("list deploy items in the cache", "error", err)
				}
				return
			}
			for i := range list.Items {
				s.memory.schedule(&list.Items[i], s.interval(&list.Items[i]), s.clock.Now())
				if !s.isIdle(&list.Items[i]) { //nolint:contextcheck // the cache answers from memory
					addLast(q, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
				}
			}
		},
	}
}

func addLast(q queue, request reconcile.Request) {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		last := handler.LowPriority
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &last}, request)
		return
	}
	q.Add(request)
}

// changes puts each new or changed item with a possible need into the queue.
func (s *Setter) changes() handler.TypedEventHandler[*v1alpha1.DeployItem, reconcile.Request] {
	changed := func(item *v1alpha1.DeployItem, q queue) {
		s.memory.schedule(item, s.interval(item), s.clock.Now())
		if s.isIdle(item) {
			s.memory.forget(client.ObjectKeyFromObject(item))
			return
		}
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item)})
	}
	return handler.TypedFuncs[*v1alpha1.DeployItem, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.DeployItem], q queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.DeployItem], q queue) {
			changed(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.DeployItem], _ queue) {
			s.memory.forget(client.ObjectKeyFromObject(e.Object))
			s.memory.schedule(e.Object, 0, s.clock.Now())
		},
	}
}
