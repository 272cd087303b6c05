package job

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// workers is how many items get jobs at the same time.
	workers = 8
	// conflictPause lets the write settle that ours met.
	conflictPause = 20 * time.Millisecond
)

// Setter sets jobs in place of a Landscaper.
type Setter struct {
	cache       client.Reader
	newMetadata func() *metav1.PartialObjectMetadata

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Setup adds a Setter to the manager. serves tells whether some plugin serves a type. newMetadata returns an empty object for
// metadata-only access to deploy items; its watch is shared with everybody else who uses it.
func Setup(mgr manager.Manager, serves func(v1alpha1.DeployItemType) bool, newMetadata func() *metav1.PartialObjectMetadata, log *slog.Logger) (*Setter, error) {
	s := &setter{
		live:    mgr.GetAPIReader(),
		client:  mgr.GetClient(),
		serves:  serves,
		clock:   clock.RealClock{},
		log:     log,
		patient: map[types.NamespacedName]bool{},
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
	enqueue := &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{}
	if err := ctrl.Watch(source.Kind(mgr.GetCache(), newMetadata(), enqueue, s.interesting())); err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	setter := &Setter{cache: mgr.GetCache(), newMetadata: newMetadata}
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

// interesting passes the events that can make an item need something.
func (s *setter) interesting() predicate.TypedFuncs[*metav1.PartialObjectMetadata] {
	return predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
		UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
			_, typed := responsibility.TypeOf(e.ObjectNew)
			operation := e.ObjectNew.Annotations[v1alpha1.OperationAnnotation]
			return e.ObjectNew.Generation != e.ObjectOld.Generation ||
				!typed ||
				operation != "" && operation != e.ObjectOld.Annotations[v1alpha1.OperationAnnotation] ||
				s.isPatient(client.ObjectKeyFromObject(e.ObjectNew))
		},
		DeleteFunc: func(e event.TypedDeleteEvent[*metav1.PartialObjectMetadata]) bool {
			s.setPatient(client.ObjectKeyFromObject(e.Object), false)
			return false
		},
	}
}
