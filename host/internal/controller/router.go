package controller

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
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
	cache   *itemcache.Source
	// standalone: see decide.
	standalone bool
	now        func() time.Time
	log        *slog.Logger

	mu     sync.Mutex
	queues map[string]queue // by name of the plugin
	// unserved are the types that no plugin serves and that were logged, at most maxUnserved.
	unserved map[v1alpha1.DeployItemType]bool
}

var _ cache.ResourceEventHandler = (*router)(nil)

func newRouter(plugins plugins, locks locks, m *memory, now func() time.Time, log *slog.Logger) *router {
	return &router{
		plugins: plugins, locks: locks, memory: m, cache: &itemcache.Source{}, now: now, log: log,
		queues:   map[string]queue{},
		unserved: map[v1alpha1.DeployItemType]bool{},
	}
}

// OnAdd handles an item that is new. Those that existed when the host started are put into a queue when it is attached.
func (r *router) OnAdd(obj any, isInInitialList bool) {
	if item, ok := obj.(*v1alpha1.DeployItem); ok && !isInInitialList {
		r.route(item, priorityChange)
	}
}

// OnUpdate handles a change.
func (r *router) OnUpdate(_, obj any) {
	if item, ok := obj.(*v1alpha1.DeployItem); ok {
		r.memory.changed(keyOf(item))
		r.route(item, priorityChange)
	}
}

// OnDelete forgets an item that is gone. A reconcile that is under way may remember the item again; the next one, which
// is requested here, forgets it then.
func (r *router) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if item, ok := obj.(*v1alpha1.DeployItem); ok {
		key := keyOf(item)
		r.memory.changed(key)
		r.memory.forgetGone(key, item.UID)
		r.route(item, priorityPoll)
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

// route puts an item into the queue of its plugin; no queue is that of an item whose type no plugin serves.
func (r *router) route(item *v1alpha1.DeployItem, priority int) {
	p := r.plugins.For(item.Spec.Type)
	if p == nil {
		r.logUnserved(item.Spec.Type)
		return
	}
	key := lock.Key{Plugin: p.Name(), Item: keyOf(item), UID: item.UID}
	r.enqueue(p.Name(), keyOf(item), priority, r.delayFor(key))
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
		r.log.Info("ignoring deploy items of a type without a plugin", "why", message)
	}
}

// countUnserved counts the items of types that no plugin serves, and logs the types; see plugin.Set.Unserved.
func (r *router) countUnserved() int {
	items := map[v1alpha1.DeployItemType]int{}
	r.cache.All(func(item *v1alpha1.DeployItem) { items[item.Spec.Type]++ })
	unserved := 0
	for itemType, n := range items {
		if r.plugins.Unserved(itemType) != "" {
			r.logUnserved(itemType)
			unserved += n
		}
	}
	return unserved
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

// refill puts its items into a queue, without those that are idle until they change.
func (r *router) refill(name string) {
	r.cache.All(func(item *v1alpha1.DeployItem) {
		if p := r.plugins.For(item.Spec.Type); p != nil && p.Name() == name && !r.isIdle(item) {
			r.route(item, priorityInitial)
		}
	})
}

// isIdle reports whether there is nothing to do for an item before it changes.
func (r *router) isIdle(item *v1alpha1.DeployItem) bool {
	known := r.memory.recall(keyOf(item), item.UID)
	if known.isJob() || known.outdated || !known.hooks.again.IsZero() {
		return false
	}
	if !known.knows(item.ResourceVersion) {
		known.hooks.asked = ""
	}
	hooks := pluginhook.Set{Plugins: r.plugins.Hooking(item.Spec.Type)}
	return decide(item, r.standalone, r.now()).Action == contract.Nothing && contract.UnknownOperation(item) == "" &&
		known.hooks.settled(hooks.About(item), time.Time{}, r.now())
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
