package controller

import (
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

// Priorities in the queues of plugins: items for which a slot is reserved, then changed items, then those that existed
// when the host started, then polls of jobs that wait. Landscaper's pick-up timeout runs for new jobs, not for polls.
const (
	prioritySlot    = 150
	priorityChange  = 100
	priorityInitial = 50
	priorityPoll    = 0
)

// queue is the queue of one plugin.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// router puts deploy items into the queues of the plugins that serve them.
type router struct {
	plugins plugins
	locks   locks
	memory  *memory
	source  *Source
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	queues map[string]queue // by name of the plugin
	// types are those of the items whose metadata does not say it, or says another one.
	types map[types.NamespacedName]itemType
	// unserved are the types that no plugin serves and that were logged, at most maxUnserved.
	unserved map[v1alpha1.DeployItemType]bool
}

// itemType is the type of the item with a UID.
type itemType struct {
	uid  types.UID
	name v1alpha1.DeployItemType
}

var _ cache.ResourceEventHandler = (*router)(nil)

func newRouter(plugins plugins, locks locks, m *memory, now func() time.Time, log *slog.Logger) *router {
	return &router{
		plugins: plugins, locks: locks, memory: m, source: &Source{}, now: now, log: log,
		queues:   map[string]queue{},
		types:    map[types.NamespacedName]itemType{},
		unserved: map[v1alpha1.DeployItemType]bool{},
	}
}

// OnAdd handles an item that is new. Those that existed when the host started are put into a queue when it is attached.
func (r *router) OnAdd(obj any, isInInitialList bool) {
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok && !isInInitialList {
		r.route(meta, priorityChange)
	}
}

// OnUpdate handles a change.
func (r *router) OnUpdate(_, obj any) {
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		r.memory.changed(client.ObjectKeyFromObject(meta))
		r.route(meta, priorityChange)
		if said, _ := contract.TypeOf(meta); said == r.typeOf(meta) {
			r.forgetType(meta)
		}
	}
}

// OnDelete forgets an item that is gone, and has it reconciled once more: a worker that is at it may remember it again,
// and forgets it then.
func (r *router) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		key := client.ObjectKeyFromObject(meta)
		r.memory.changed(key)
		r.memory.forgetGone(key, meta.UID)
		r.forgetType(meta)
		r.route(meta, priorityPoll)
	}
}

// WakeUp has an item reconciled because its plugin says that it may have changed.
func (r *router) WakeUp(plugin, namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	r.memory.wake(key, plugin, r.now())
	r.enqueue(plugin, key, priorityChange, 0)
}

// slotsReserved has the items reconciled for which slots of a plugin are reserved.
func (r *router) slotsReserved(plugin string, keys []types.NamespacedName) {
	for _, key := range keys {
		r.enqueue(plugin, key, prioritySlot, 0)
	}
}

// queueFor returns the name of an item's queue: that of its plugin. There is none if no plugin serves its type.
func (r *router) queueFor(meta *metav1.PartialObjectMetadata) (name string, ok bool) {
	itemType := r.typeOf(meta)
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
	key := client.ObjectKeyFromObject(meta)
	r.enqueue(name, key, priority, r.delayFor(lock.Key{Plugin: name, Item: key, UID: meta.UID}))
}

// maxUnserved bounds the types that are logged: users can invent any.
const maxUnserved = 100

// logUnserved logs, once for each type, that no plugin serves it.
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

// countUnserved counts the items of types that no plugin serves, and logs the types; see plugin.Set.Unserved.
func (r *router) countUnserved() int {
	items := map[v1alpha1.DeployItemType]int{}
	r.source.each(func(meta *metav1.PartialObjectMetadata) {
		items[r.typeOf(meta)]++
	})
	unserved := 0
	for itemType, n := range items {
		if r.plugins.Unserved(itemType) != "" {
			r.logUnserved(itemType)
			unserved += n
		}
	}
	return unserved
}

// typeOf is the type of an item.
func (r *router) typeOf(meta *metav1.PartialObjectMetadata) v1alpha1.DeployItemType {
	r.mu.Lock()
	known, ok := r.types[client.ObjectKeyFromObject(meta)]
	r.mu.Unlock()
	if ok && known.uid == meta.UID {
		return known.name
	}
	said, _ := contract.TypeOf(meta)
	return said
}

// see notes the type of an item if its metadata does not say it, or says another one. What the metadata in the cache
// says is not known before the event.
func (r *router) see(item *v1alpha1.DeployItem) {
	said, _ := contract.TypeOf(item)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.types[keyOf(item)]; ok || said != item.Spec.Type {
		r.types[keyOf(item)] = itemType{uid: item.UID, name: item.Spec.Type}
	}
}

// forgetType forgets what was noted of an item, but not of another one of its name.
func (r *router) forgetType(meta *metav1.PartialObjectMetadata) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := client.ObjectKeyFromObject(meta); r.types[key].uid == meta.UID {
		delete(r.types, key)
	}
}

// enqueue puts an item into the queue of a plugin after a time. If there is no queue yet, attach will fill it.
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

// attach registers the queue of a plugin, and fills it with the items that exist.
func (r *router) attach(name string, q queue) {
	r.mu.Lock()
	r.queues[name] = q
	r.mu.Unlock()
	r.refill(name)
}

// refill puts its items into a queue, without those that are known to be idle until they change.
func (r *router) refill(name string) {
	r.source.each(func(meta *metav1.PartialObjectMetadata) {
		if queue, ok := r.queueFor(meta); ok && queue == name && !r.isIdle(meta) {
			r.route(meta, priorityInitial)
		}
	})
}

// isIdle reports whether there is nothing to do for an item before it changes, or other hooks are to be asked.
func (r *router) isIdle(meta *metav1.PartialObjectMetadata) bool {
	known, current := r.memory.recall(client.ObjectKeyFromObject(meta), meta.UID, meta.ResourceVersion)
	if !current || !known.hooks.again.IsZero() {
		return false
	}
	return known.isIdle(hookSet{plugins: r.plugins.Hooking(r.typeOf(meta))}, r.now())
}

// wakeWhere has the jobs reconciled that which selects.
func (r *router) wakeWhere(which func(*entry) bool) {
	r.enqueueWoken(r.memory.wakeWhere(r.now(), which))
}

// wakeFailing has the jobs of items reconciled that have met an error.
func (r *router) wakeFailing(keys []types.NamespacedName) {
	r.enqueueWoken(r.memory.wakeFailing(r.now(), keys))
}

// enqueueWoken puts items into the queues of their plugins.
func (r *router) enqueueWoken(plugins map[types.NamespacedName]string) {
	for key, plugin := range plugins {
		r.enqueue(plugin, key, priorityChange, 0)
	}
}

// pluginsRun has the jobs reconciled that wait for one of the running plugins.
func (r *router) pluginsRun(running map[string]bool) {
	r.wakeWhere(func(e *entry) bool { return running[e.waitsFor] })
}

// hooksChanged has the jobs with an error reconciled of the plugins that serve these types.
func (r *router) hooksChanged(itemTypes []v1alpha1.DeployItemType) {
	plugins := map[string]bool{}
	for _, t := range itemTypes {
		if p := r.plugins.For(t); p != nil {
			plugins[p.Name()] = true
		}
	}
	r.wakeWhere(func(e *entry) bool { return plugins[e.plugin] && e.retries > 0 })
}
