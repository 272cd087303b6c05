package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// workers is how many items get jobs at the same time.
	workers = 8
	// pause comes before an item is reconciled again: it lets the write end that ours met.
	pause = 20 * time.Millisecond
)

// Options are the settings of a Setter.
type Options struct {
	// PickupTimeout is how long a job may wait for a deployer that picks it up. Zero switches the timeout off.
	PickupTimeout time.Duration
	// ProgressingTimeout is how long after its deadline a job that was picked up is left to its deployer, which counts
	// as dead then. Zero switches the timeout off.
	ProgressingTimeout time.Duration
	// Elected reports whether this replica is the one to set jobs for the items of a type, and to end them. Two of
	// them for a moment do no harm, as every write is conditional. Setter.ReplicasChanged tells that the answer may
	// be another one now. Required.
	Elected func(itemType v1alpha1.DeployItemType) bool
	// Unserved says of a type that nobody serves, and what is served instead; empty for a type that is served, and as
	// long as that is not known. Setter.Served tells that the answer may be another one now. Required.
	Unserved func(itemType v1alpha1.DeployItemType) string
	// UnservedGrace is how long an item of a type that nobody here serves is left to others before it says so: another
	// installation may serve it, or a replica that starts. Zero for no time.
	UnservedGrace time.Duration
}

// Setter sets jobs in place of a Landscaper, and ends those that no deployer ends. Somebody lists all items at the
// start and calls Listed and AllListed. What was there at the start waits for the end, so that only the items
// that need something are read one by one.
type Setter struct {
	live   client.Reader
	cache  client.Reader // metadata of deploy items
	client client.Client
	// newMetadata returns an empty object for what is in the cache.
	newMetadata func() *metav1.PartialObjectMetadata
	serves      func(v1alpha1.DeployItemType) bool
	options     Options
	clock       clock.PassiveClock
	recorder    events.EventRecorder
	log         *slog.Logger
	memory      *memory
	// held: what was there at the start waits until all is listed.
	held atomic.Bool
	// wake takes one signal to reconcile all items.
	wake chan event.TypedGenericEvent[struct{}]
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Setup adds a Setter to the manager. serves reports whether some plugin serves a type. newMetadata returns an empty
// object for metadata-only access to deploy items; its watch is shared with everybody else who uses it.
func Setup(
	mgr manager.Manager, serves func(v1alpha1.DeployItemType) bool, newMetadata func() *metav1.PartialObjectMetadata,
	log *slog.Logger, options Options,
) (*Setter, error) {
	s := &Setter{
		live:        mgr.GetAPIReader(),
		cache:       mgr.GetCache(),
		client:      mgr.GetClient(),
		newMetadata: newMetadata,
		serves:      serves,
		options:     options,
		clock:       clock.RealClock{},
		recorder:    mgr.GetEventRecorder("pergola"),
		log:         log,
		memory:      newMemory(),
		wake:        make(chan event.TypedGenericEvent[struct{}], 1),
	}
	s.held.Store(true)
	ctrl, err := controller.New("jobs", mgr, controller.Options{Reconciler: s, MaxConcurrentReconciles: workers})
	if err != nil {
		return nil, fmt.Errorf("create job controller: %w", err)
	}
	if err := ctrl.Watch(source.Kind(mgr.GetCache(), newMetadata(), s.changes())); err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	if err := ctrl.Watch(source.TypedChannel(s.wake, s.signals())); err != nil {
		return nil, fmt.Errorf("watch plugins and replicas: %w", err)
	}
	return s, nil
}

// Served has all items reconciled, because a plugin has come to serve these types. It does not block.
func (s *Setter) Served(served []v1alpha1.DeployItemType) {
	s.memory.serve(served, s.clock.Now())
	s.reconcileAll()
}

// ReplicasChanged tells that this replica may have been elected, or not be any more. It does not block.
func (s *Setter) ReplicasChanged() { s.reconcileAll() }

// Listed is told of an item that was listed in full. The item is not kept.
func (s *Setter) Listed(item *v1alpha1.DeployItem) {
	s.memory.remember(item, idle(item, s.options, s.clock.Now()))
}

// AllListed has the items reconciled that were there at the start. Those that need nothing as they were listed are not
// read; those that Listed has not told of are.
func (s *Setter) AllListed() {
	s.held.Store(false)
	s.reconcileAll()
}

func (s *Setter) reconcileAll() {
	select {
	case s.wake <- event.TypedGenericEvent[struct{}]{}:
	default: // there is a signal already
	}
}

// signals puts all items into the queue, behind those that have changed. What waits until all is listed still does.
func (s *Setter) signals() handler.TypedEventHandler[struct{}, reconcile.Request] {
	return handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(ctx context.Context, _ event.TypedGenericEvent[struct{}], q queue) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(s.newMetadata().GroupVersionKind())
			if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				if ctx.Err() == nil {
					s.log.Error("list deploy items in the cache", "error", err)
				}
				return
			}
			for i := range list.Items {
				if _, known := s.memory.recall(&list.Items[i]); known || !s.held.Load() {
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

// changes puts the items into the queue to which something has happened.
func (s *Setter) changes() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			if !e.IsInInitialList || !s.held.Load() { // else AllListed finds it in the cache
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
			if after, needed := s.reconcileAfter(e.ObjectOld, e.ObjectNew); needed {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], _ queue) {
			s.memory.forget(client.ObjectKeyFromObject(e.Object))
		},
	}
}

// reconcileAfter reports whether, and how long after a change, an item is to be reconciled. A status is not in the
// metadata: a change without any other effect may be a job that somebody else has set. It can need something when its
// time is over, no earlier. The queue keeps the earliest time of an item only, so that all that happens to an item
// until then costs one read.
func (s *Setter) reconcileAfter(before, after *metav1.PartialObjectMetadata) (time.Duration, bool) {
	itemType, typed := contract.TypeOf(after)
	switch {
	case after.Generation != before.Generation || !typed:
		return 0, true
	case after.ResourceVersion == before.ResourceVersion:
		return 0, false
	case !s.serves(itemType): // but whoever asks for something is to know
		asked := after.Annotations[v1alpha1.OperationAnnotation]
		return 0, asked != "" && asked != before.Annotations[v1alpha1.OperationAnnotation]
	case s.memory.last(client.ObjectKeyFromObject(after)).jobLater:
		return 0, true
	default:
		return s.options.statusDelay(), s.options.statusDelay() > 0
	}
}
