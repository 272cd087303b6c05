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

// Setter sets jobs in place of a Landscaper, and ends those that no deployer ends.
type Setter struct {
	setter      *setter
	cache       client.Reader
	newMetadata func() *metav1.PartialObjectMetadata

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
		live:    mgr.GetAPIReader(),
		client:  mgr.GetClient(),
		serves:  serves,
		clock:   clock.RealClock{},
		log:     log,
		memory:  newMemory(),
		options: options,
	}
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
	setter := &Setter{setter: s, cache: mgr.GetCache(), newMetadata: newMetadata}
	if err := ctrl.Watch(source.Func(setter.attach)); err != nil {
		return nil, fmt.Errorf("watch plugins: %w", err)
	}
	return setter, nil
}

func (s *Setter) attach(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	return nil
}

// Served has the items of these types looked at again, because a plugin has come to serve them.
func (s *Setter) Served(ctx context.Context, served []v1alpha1.DeployItemType) error {
	s.setter.memory.serve(served, s.setter.clock.Now())
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(s.newMetadata().GroupVersionKind())
	if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list deploy items in the cache: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil { // not started yet: it will see all items then
		return nil
	}
	for i := range list.Items {
		if itemType, typed := responsibility.TypeOf(&list.Items[i]); !typed || slices.Contains(served, itemType) {
			s.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return nil
}

// events puts the items into the queue to which something has happened.
func (s *setter) events() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
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
	case after.ResourceVersion == before.ResourceVersion || !s.serves(itemType):
		return 0, false
	default:
		return s.options.settle(), s.options.settle() > 0
	}
}
