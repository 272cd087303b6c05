package inuse

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// keptField is the index of the objects of namedKinds in the cache with the finalizer.
	keptField = "kept"
	// gather is the delay between a change and the reconcile of its namespace, so that a thousand changes cost one
	// look.
	gather = time.Second
)

// Options of a Keeper. All are required.
type Options struct {
	// Items are those of the manager's cache.
	Items Items
	// Elected reports whether this replica does the work that is to be done once. Keeper.ReplicasChanged announces a
	// new answer.
	Elected func() bool
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Setup adds a Keeper to a manager that has not started.
func Setup(ctx context.Context, mgr manager.Manager, o Options) (*Keeper, error) {
	k := &Keeper{
		cache: mgr.GetCache(), live: mgr.GetAPIReader(), client: mgr.GetClient(), items: o.Items, elected: o.Elected,
		recorder: mgr.GetEventRecorder("pergola"),
		wake:     make(chan event.TypedGenericEvent[struct{}], 1),
		left:     sets.New[string](), reported: sets.New[types.UID](),
	}
	hasFinalizer := func(o client.Object) []string {
		if controllerutil.ContainsFinalizer(o, Finalizer) {
			return []string{"true"}
		}
		return nil
	}
	for _, kind := range namedKinds {
		if err := mgr.GetFieldIndexer().IndexField(ctx, newMetadata(kind), keptField, hasFinalizer); err != nil {
			return nil, fmt.Errorf("index %ss: %w", kind, err)
		}
	}
	ctrl, err := controller.New("references", mgr, controller.Options{Reconciler: k})
	if err != nil {
		return nil, fmt.Errorf("create controller of objects in use: %w", err)
	}
	cache := mgr.GetCache()
	for kind, watched := range map[string]source.Source{
		"DeployItems": source.Kind(cache, &v1alpha1.DeployItem{}, namespacesOf(usesOther)),
		"Targets":     source.Kind(cache, &v1alpha1.Target{}, namespacesOf(refersOther[*v1alpha1.Target])),
		"Contexts":    source.Kind(cache, &v1alpha1.Context{}, namespacesOf(refersOther[*v1alpha1.Context])),
		"Secrets":     source.Kind(cache, newMetadata(kindSecret), namespacesOf(refersOther[*metav1.PartialObjectMetadata])),
		"ConfigMaps": source.Kind(
			cache, newMetadata(kindConfigMap), namespacesOf(refersOther[*metav1.PartialObjectMetadata]),
		),
		"replicas": source.TypedChannel(k.wake, k.election()),
	} {
		if err := ctrl.Watch(watched); err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind, err)
		}
	}
	return k, nil
}

// ReplicasChanged announces an election or the loss of one. It does not block.
func (k *Keeper) ReplicasChanged() {
	select {
	case k.wake <- event.TypedGenericEvent[struct{}]{}:
	default: // there is a signal already
	}
}

// election queues the namespaces left to another replica.
func (k *Keeper) election() handler.TypedEventHandler[struct{}, reconcile.Request] {
	return handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[struct{}], q queue) {
			k.mu.Lock()
			defer k.mu.Unlock()
			for namespace := range k.left {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}})
			}
			k.left = sets.New[string]()
		},
	}
}

// usesOther reports whether an item uses something else than before.
func usesOther(before, after *v1alpha1.DeployItem) bool {
	target, lsContext := contract.ReferencesOf(before)
	nextTarget, nextContext := contract.ReferencesOf(after)
	return target != nextTarget || lsContext != nextContext || move.From(before) != move.From(after)
}

// refersOther reports whether an object may refer to something else than before, or whether its finalizer or its
// deletion has changed.
func refersOther[T client.Object](before, after T) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// namespacesOf puts the namespace of an object into the queue when the object comes or goes, and when a change counts.
func namespacesOf[T client.Object](counts func(before, after T) bool) handler.TypedEventHandler[T, reconcile.Request] {
	look := func(object T, q queue) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace()}}, gather)
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { look(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if counts(e.ObjectOld, e.ObjectNew) {
				look(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { look(e.Object, q) },
	}
}
