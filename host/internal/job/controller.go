package job

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// workers is how many items get jobs at the same time.
	workers = 8
	// pause comes before another look at an item: it lets the write settle that ours met.
	pause = 20 * time.Millisecond
)

var _ manager.LeaderElectionRunnable = (*Setter)(nil)

// Setter sets jobs in place of a Landscaper, and ends those that no deployer ends.
type Setter struct {
	setter    *setter
	elections chan struct{} // takes one signal that this replica may have been elected

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Setup adds a Setter to the manager. serves tells whether some plugin serves a type. newMetadata returns an empty object for
// metadata-only access to deploy items; its watch is shared with everybody else who uses it.
func Setup(
	mgr manager.Manager, serves func(v1alpha1.DeployItemType) bool, newMetadata func() *metav1.PartialObjectMetadata,
	log *slog.Logger, options Options,
) (*Setter, error) {
	s := &setter{
		live:        mgr.GetAPIReader(),
		cache:       mgr.GetCache(),
		client:      mgr.GetClient(),
		newMetadata: newMetadata,
		serves:      serves,
		clock:       clock.RealClock{},
		recorder:    mgr.GetEventRecorder("pergola"),
		log:         log,
		memory:      newMemory(),
		options:     options,
	}
	s.held.Store(options.Surveyed)
	everyReplica := false
	ctrl, err := controller.New("jobs", mgr, controller.Options{
		Reconciler:              s,
		MaxConcurrentReconciles: workers,
		NeedLeaderElection:      &everyReplica,
	})
	if err != nil {
		return nil, fmt.Errorf("create job controller: %w", err)
	}
	if err := ctrl.Watch(source.Kind(mgr.GetCache(), newMetadata(), s.events())); err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	setter := &Setter{setter: s, elections: make(chan struct{}, 1)}
	if err := mgr.Add(setter); err != nil {
		return nil, fmt.Errorf("set up jobs: %w", err)
	}
	if err := ctrl.Watch(source.Func(setter.attach)); err != nil {
		return nil, fmt.Errorf("watch plugins: %w", err)
	}
	return setter, nil
}

// attach makes a queue that of the items that are to be looked at again.
func (s *Setter) attach(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	s.queue = queue
	s.mu.Unlock()
	if !s.setter.options.Surveyed {
		return nil
	}
	return s.lookAgain(ctx, anyType) // the survey may have ended before there was a queue
}

// Served has the items of these types looked at again, because a plugin has come to serve them, and those of types that
// nobody serves.
func (s *Setter) Served(ctx context.Context, served []v1alpha1.DeployItemType) error {
	s.setter.memory.serve(served, s.setter.clock.Now())
	return s.lookAgain(ctx, func(itemType v1alpha1.DeployItemType) bool {
		return slices.Contains(served, itemType) || !s.setter.serves(itemType)
	})
}

// Surveyed tells of an item that was listed in full; see Options.Surveyed. The item is not kept. An error is that of the cache.
func (s *Setter) Surveyed(ctx context.Context, item *v1alpha1.DeployItem) error {
	return s.setter.judge(ctx, item)
}

// SurveyEnded has the items looked at that were there at the start. Those that need nothing as they were listed are not read; those
// that Surveyed has not told of are. An error is that of the cache.
func (s *Setter) SurveyEnded(ctx context.Context) error {
	s.setter.held.Store(false)
	return s.lookAgain(ctx, anyType)
}

// ReplicasChanged tells that this replica may have been elected, or not be any more. It does not block.
func (s *Setter) ReplicasChanged() {
	select {
	case s.elections <- struct{}{}:
	default: // there is a signal already
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the election is that of Options.
func (s *Setter) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it has all items looked at when this replica may have been elected. It blocks until ctx ends.
func (s *Setter) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.elections:
			if err := s.lookAgain(ctx, anyType); err != nil {
				return err
			}
		}
	}
}

// lookAgain puts the items of some types into the queue, and those of unknown type, behind those that have changed. What waits for
// the end of the survey still does.
func (s *Setter) lookAgain(ctx context.Context, wanted func(v1alpha1.DeployItemType) bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(s.setter.newMetadata().GroupVersionKind())
	if err := s.setter.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list deploy items in the cache: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil { // not started yet: it will see all items then
		return nil
	}
	for i := range list.Items {
		itemType, typed := responsibility.TypeOf(&list.Items[i])
		if (!typed || wanted(itemType)) && !s.setter.waits(&list.Items[i]) {
			addLast(s.queue, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return nil
}

func anyType(v1alpha1.DeployItemType) bool { return true }

func addLast(queue workqueue.TypedRateLimitingInterface[reconcile.Request], request reconcile.Request) {
	if q, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		last := handler.LowPriority
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &last}, request)
		return
	}
	queue.Add(request)
}

// waits tells whether an item waits for the end of the survey: nothing is known yet of it as it is.
func (s *setter) waits(meta *metav1.PartialObjectMetadata) bool {
	if !s.held.Load() {
		return false
	}
	_, known := s.memory.recall(meta)
	return !known
}

// events puts the items into the queue to which something has happened.
func (s *setter) events() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			if !e.IsInInitialList || !s.held.Load() { // else the end of the survey finds it in the cache
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
			if after, look := s.lookAfter(e.ObjectOld, e.ObjectNew); look {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], _ queue) {
			s.memory.forget(client.ObjectKeyFromObject(e.Object))
		},
	}
}

// lookAfter tells whether, and how long after a change, an item is to be looked at. A status is not in the metadata: a change
// without any other effect may be a job that somebody else has set. It can need something when its time is over, no earlier. The
// queue keeps the earliest look at an item only, so that all that happens to an item in this time costs one.
func (s *setter) lookAfter(before, after *metav1.PartialObjectMetadata) (time.Duration, bool) {
	itemType, typed := responsibility.TypeOf(after)
	switch {
	case after.Generation != before.Generation || !typed || s.memory.isPatient(client.ObjectKeyFromObject(after)):
		return 0, true
	case after.ResourceVersion == before.ResourceVersion:
		return 0, false
	case !s.serves(itemType): // but whoever asks for something is to know
		asked := after.Annotations[v1alpha1.OperationAnnotation]
		return 0, asked != "" && asked != before.Annotations[v1alpha1.OperationAnnotation]
	default:
		return s.options.settle(), s.options.settle() > 0
	}
}
