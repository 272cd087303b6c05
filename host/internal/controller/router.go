package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Priorities in the queues of plugins: a job that has got its slot is not to be kept waiting; what has changed comes
// before what was there when the host started, and both come before another reconcile of a job that waits. Upstream's
// pick-up timeout runs for new jobs, not for polls.
const (
	prioritySlot    = 150
	priorityChange  = 100
	priorityInitial = 50
	priorityPoll    = 0
)

// queue is the queue of one plugin.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// router forwards events of deploy items on to the queue of the plugin that serves them.
type router struct {
	plugins plugins
	locks   locks
	memory  *memory
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	queues map[string]queue // by name of the plugin, and untyped
	// types of the items whose metadata does not repeat it, or lies.
	types map[types.NamespacedName]itemType
	// unserved are the types that nobody serves and that were logged, at most maxUnserved.
	unserved map[v1alpha1.DeployItemType]bool
}

// itemType is the type of one item, not of a later one of the same name.
type itemType struct {
	uid  types.UID
	name v1alpha1.DeployItemType
}

var _ cache.ResourceEventHandler = (*router)(nil)

func newRouter(plugins plugins, locks locks, m *memory, now func() time.Time, log *slog.Logger) *router {
	return &router{
		plugins: plugins, locks: locks, memory: m, now: now, log: log,
		queues:   map[string]queue{},
		types:    map[types.NamespacedName]itemType{},
		unserved: map[v1alpha1.DeployItemType]bool{},
	}
}

// OnAdd hears of an item that is new, or that was there before the host started.
func (r *router) OnAdd(obj any, isInInitialList bool) {
	priority := priorityChange
	if isInInitialList {
		priority = priorityInitial
	}
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		r.route(meta, priority)
	}
}

// OnUpdate hears of a change.
func (r *router) OnUpdate(_, obj any) {
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		r.memory.changed(client.ObjectKeyFromObject(meta))
		r.route(meta, priorityChange)
	}
}

// OnDelete forgets an item that is gone. A worker that is busy with it may remember it again afterwards: it has
// another reconcile, and then forgets it, too.
func (r *router) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		key := client.ObjectKeyFromObject(meta)
		r.memory.changed(key)
		r.memory.forget(key)
		r.forgetType(key)
		r.route(meta, priorityPoll)
	}
}

// WakeUp puts an item into the queue of the plugin that says that it may have moved on.
func (r *router) WakeUp(plugin, namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	r.memory.wake(key, plugin, r.now())
	r.enqueue(plugin, key, priorityChange, 0)
}

// slotsKept puts the items into the plugin's queue for which slots are kept.
func (r *router) slotsKept(plugin string, keys []types.NamespacedName) {
	for _, key := range keys {
		r.enqueue(plugin, key, prioritySlot, 0)
	}
}

// untyped names the queue of the items whose type is not known yet.
const untyped = ""

// queueFor names the queue of an item, which is that of its plugin; none if nobody serves its type.
func (r *router) queueFor(meta *metav1.PartialObjectMetadata) (name string, ok bool) {
	itemType, typed := r.typeOf(meta)
	if !typed {
		return untyped, true
	}
	if p := r.plugins.For(itemType); p != nil {
		return p.Name(), true
	}
	r.logUnserved(itemType)
	return "", false
}

// route puts an item into its queue, if there is one.
func (r *router) route(meta *metav1.PartialObjectMetadata, priority int) {
	name, ok := r.queueFor(meta)
	if !ok {
		return
	}
	key, after := client.ObjectKeyFromObject(meta), time.Duration(0)
	if name != untyped {
		after = r.patienceFor(lock.Key{Plugin: name, Item: key, UID: meta.UID})
	}
	r.enqueue(name, key, priority, after)
}

// maxUnserved bounds the types that are logged: users may make up any.
const maxUnserved = 100

// logUnserved logs, once for each type, that nobody serves it.
func (r *router) logUnserved(itemType v1alpha1.DeployItemType) {
	message := r.plugins.Unserved(itemType)
	if message == "" {
		return
	}
	r.mu.Lock()
	first := !r.unserved[itemType] && len(r.unserved) < maxUnserved
	if first {
		r.unserved[itemType] = true
	}
	r.mu.Unlock()
	if first {
		r.log.Info("deploy items of a type that nobody here serves are left alone", "why", message)
	}
}

// countUnserved counts the items of types that nobody serves, and logs their types; see plugin.Set.Unserved.
func (r *router) countUnserved(ctx context.Context, reader client.Reader) (int, error) {
	items := map[v1alpha1.DeployItemType]int{}
	err := existing(ctx, reader, func(meta *metav1.PartialObjectMetadata) {
		if itemType, known := r.typeOf(meta); known {
			items[itemType]++
		}
	})
	unserved := 0
	for itemType, n := range items {
		if r.plugins.Unserved(itemType) != "" {
			r.logUnserved(itemType)
			unserved += n
		}
	}
	return unserved, err
}

// typeOf is the type of an item, as far as it can be told without reading it.
func (r *router) typeOf(meta *metav1.PartialObjectMetadata) (v1alpha1.DeployItemType, bool) {
	r.mu.Lock()
	known, ok := r.types[client.ObjectKeyFromObject(meta)]
	r.mu.Unlock()
	if ok && known.uid == meta.UID {
		return known.name, true
	}
	return contract.TypeOf(meta)
}

// forgetType forgets the type of an item that is gone.
func (r *router) forgetType(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.types, key)
}

// enqueue puts an item into the queue of a plugin after a while. A plugin whose queue is not there yet gets all its
// items when it is.
func (r *router) enqueue(plugin string, key types.NamespacedName, priority int, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := reconcile.Request{NamespacedName: key}
	switch q := r.queues[plugin].(type) {
	case nil:
	case priorityqueue.PriorityQueue[reconcile.Request]:
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request)
	default:
		q.AddAfter(request, after)
	}
}

// attach makes a queue that of a plugin, or of the items of unknown type, and fills it with the items that are there.
func (r *router) attach(ctx context.Context, reader client.Reader, name string, q queue) error {
	r.mu.Lock()
	r.queues[name] = q
	r.mu.Unlock()
	return r.refill(ctx, reader, name)
}

// refill fills a queue with the items that are there already.
func (r *router) refill(ctx context.Context, reader client.Reader, name string) error {
	return existing(ctx, reader, func(meta *metav1.PartialObjectMetadata) {
		if queue, ok := r.queueFor(meta); ok && queue == name {
			r.route(meta, priorityInitial)
		}
	})
}

// existing calls a function with each item of the cache.
func existing(
	ctx context.Context, reader client.Reader, each func(*metav1.PartialObjectMetadata), which ...client.ListOption,
) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeployItemList"))
	if err := reader.List(ctx, list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("list deploy items in the cache: %w", err)
	}
	for i := range list.Items {
		each(&list.Items[i])
	}
	return nil
}

// classify remembers the type of an item whose metadata does not tell it, and forwards the item.
func (r *router) classify(item *v1alpha1.DeployItem) {
	r.setType(item)
	r.route(metadataOf(item), priorityChange)
}

func (r *router) setType(item *v1alpha1.DeployItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types[keyOf(item)] = itemType{uid: item.UID, name: item.Spec.Type}
}

// wakeWhere makes the jobs due that something is true of.
func (r *router) wakeWhere(which func(types.NamespacedName, *entry) bool) {
	for key, plugin := range r.memory.wakeWhere(r.now(), which) {
		r.enqueue(plugin, key, priorityChange, 0)
	}
}

// pluginsRun makes the jobs due that wait for one of these plugins to run.
func (r *router) pluginsRun(running map[string]bool) {
	r.wakeWhere(func(_ types.NamespacedName, e *entry) bool { return running[e.waitsFor] })
}

// hooksChanged makes those jobs due that have met an error, of the plugins that serve some types.
func (r *router) hooksChanged(itemTypes []v1alpha1.DeployItemType) {
	plugins := map[string]bool{}
	for _, t := range itemTypes {
		if p := r.plugins.For(t); p != nil {
			plugins[p.Name()] = true
		}
	}
	r.wakeWhere(func(_ types.NamespacedName, e *entry) bool { return plugins[e.plugin] && e.retries > 0 })
}
