// Package intake decides when DeployItems are reconciled. It puts each item into the queue of its plugin, after changes
// of the item (Router) and of its Target or Context (References).
package intake

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Priorities in the queues of plugins. Landscaper's pick-up timeout runs for new jobs, not for polls.
const (
	prioritySlot    = 150 // items with a reserved slot
	priorityChange  = 100 // changed items
	priorityInitial = 50  // items from the time before the start of the host
	// PriorityPoll is the priority of polls of waiting jobs.
	PriorityPoll = 0
)

const (
	// rankDelay is the delay of a replica for each preferred replica.
	rankDelay = 500 * time.Millisecond
	// maxRankDelay bounds the delay.
	maxRankDelay = 2 * time.Second
)

// Queue is the queue of one plugin.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Locks are a *lock.Locker, or lock.Off.
type Locks interface {
	Holds(key lock.Key) bool
	Rank(key lock.Key) int
}

// Router puts DeployItems into the queues of their plugins. It is safe for concurrent use.
type Router struct {
	Options

	mu     sync.Mutex
	queues map[string]Queue // by name of the plugin
	// unserved are the logged types without a plugin, at most maxUnserved.
	unserved map[v1alpha1.DeployItemType]bool
}

// Options of a Router. All but Repaired and Woken are required.
type Options struct {
	Plugins Plugins
	Locks   Locks
	Memory  *itemstate.Memory
	Items   *itemcache.Source
	Rules   contract.Rules
	// Repaired is called with items for which an obstacle is gone; nil for no call.
	Repaired func(items []types.NamespacedName)
	// Woken is called with items without a job here that their plugin wakes; nil for no call.
	Woken func(item types.NamespacedName)
	Log   *slog.Logger
}

var (
	_ toolscache.ResourceEventHandler = (*Router)(nil)
	_ lock.Listener                   = (*Router)(nil)
)

// NewRouter returns a Router without queues.
func NewRouter(options Options) *Router {
	return &Router{Options: options, queues: map[string]Queue{}, unserved: map[v1alpha1.DeployItemType]bool{}}
}

// OnAdd handles a new item. Attach handles the items of the initial list.
func (r *Router) OnAdd(obj any, isInInitialList bool) {
	if item, ok := obj.(*v1alpha1.DeployItem); ok && !isInInitialList {
		r.route(item, priorityChange)
	}
}

// OnUpdate handles a changed item.
func (r *Router) OnUpdate(_, obj any) {
	if item, ok := obj.(*v1alpha1.DeployItem); ok {
		r.Memory.Changed(client.ObjectKeyFromObject(item))
		r.route(item, priorityChange)
	}
}

// OnDelete forgets a deleted item. Items that need what it has held go on.
func (r *Router) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if item, ok := obj.(*v1alpha1.DeployItem); ok {
		key := client.ObjectKeyFromObject(item)
		r.Memory.Changed(key)
		r.Memory.ForgetGone(key, item.UID)
		// A reconcile under way may remember the item again; the next one forgets it.
		r.route(item, PriorityPoll)
		r.holderGone(key)
	}
}

// holderGone has the items reconciled that need what a deleted item has held.
func (r *Router) holderGone(holder types.NamespacedName) {
	var needing []types.NamespacedName
	err := r.Items.Users(itemcache.KindHolder, holder, func(item *v1alpha1.DeployItem) {
		needing = append(needing, client.ObjectKeyFromObject(item))
	})
	if err != nil {
		r.Log.Error("items do not go on at once after the end of another one", "deployitem", holder, "error", err.Error())
	}
	if len(needing) == 0 {
		return
	}
	r.wakeFailing(needing)
	if r.Repaired != nil {
		r.Repaired(needing)
	}
}

// WakeUp has an item reconciled at the request of its plugin.
func (r *Router) WakeUp(plugin, namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if isJob := r.Memory.Wake(key, plugin, r.Rules.Now()); !isJob && r.Woken != nil {
		r.Woken(key)
	}
	r.enqueue(plugin, key, priorityChange, 0)
}

// Freed implements lock.Listener: the lock of an item is free.
func (r *Router) Freed(key lock.Key) {
	r.Memory.Wake(key.Item, key.Plugin, r.Rules.Now())
	r.enqueue(key.Plugin, key.Item, priorityChange, r.DelayFor(key))
}

// Lost implements lock.Listener: the memory of an item is outdated.
func (r *Router) Lost(key lock.Key) {
	r.Memory.Forget(key.Item)
	r.enqueue(key.Plugin, key.Item, priorityChange, 0)
}

// SlotsReserved has the items with reserved slots of a plugin reconciled.
func (r *Router) SlotsReserved(plugin string, keys []types.NamespacedName) {
	for _, key := range keys {
		r.enqueue(plugin, key, prioritySlot, 0)
	}
}

// PluginsRun has all jobs reconciled that wait for one of the running plugins.
func (r *Router) PluginsRun(running map[string]bool) {
	r.wakeWhere(func(e *itemstate.Entry) bool { return running[e.WaitsFor] })
}

// HTTPHooksChanged has the jobs with an error reconciled whose plugins serve these types.
func (r *Router) HTTPHooksChanged(itemTypes []v1alpha1.DeployItemType) {
	plugins := map[string]bool{}
	for _, t := range itemTypes {
		if p := r.Plugins.For(t); p != nil {
			plugins[p.Name()] = true
		}
	}
	r.wakeWhere(func(e *itemstate.Entry) bool { return plugins[e.Plugin] && e.Retries > 0 })
}

// DelayFor is the delay of this replica behind the replicas preferred by an item. It keeps replicas from trying all at
// once, and costs time only if a preferred replica fails.
func (r *Router) DelayFor(key lock.Key) time.Duration {
	rank := r.Locks.Rank(key)
	if rank == 0 || r.Locks.Holds(key) {
		return 0
	}
	return min(time.Duration(rank)*rankDelay, maxRankDelay)
}

// Attach registers the queue of a plugin, and fills it with the existing items.
func (r *Router) Attach(plugin string, q Queue) {
	r.mu.Lock()
	r.queues[plugin] = q
	r.mu.Unlock()
	r.Refill(plugin)
}

// Refill puts the items of a plugin into its queue, except idle ones.
func (r *Router) Refill(plugin string) {
	r.Items.All(func(item *v1alpha1.DeployItem) {
		if p := r.Plugins.For(item.Spec.Type); p != nil && p.Name() == plugin && !r.isIdle(item) {
			r.route(item, priorityInitial)
		}
	})
}

// isIdle reports whether there is nothing to do for an item before it changes.
func (r *Router) isIdle(item *v1alpha1.DeployItem) bool {
	known := r.Memory.Recall(client.ObjectKeyFromObject(item), item.UID)
	if known.IsJob() || known.Outdated || !known.Hooks.Again.IsZero() {
		return false
	}
	if !known.Knows(item.ResourceVersion) {
		known.Hooks.Asked = ""
	}
	hooks := pluginhook.Set{Plugins: r.Plugins.Hooking(item.Spec.Type)}
	return r.Rules.NeedsNothing(item) && known.Hooks.Settled(hooks.About(item), time.Time{}, r.Rules.Now())
}

// route puts an item into the queue of its plugin, if there is one.
func (r *Router) route(item *v1alpha1.DeployItem, priority int) {
	p := r.Plugins.For(item.Spec.Type)
	if p == nil {
		r.logUnserved(item.Spec.Type)
		return
	}
	key := lock.Key{Plugin: p.Name(), Item: client.ObjectKeyFromObject(item), UID: item.UID}
	r.enqueue(key.Plugin, key.Item, priority, r.DelayFor(key))
}

// enqueue puts an item into the queue of a plugin after a time.
func (r *Router) enqueue(plugin string, key types.NamespacedName, priority int, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := reconcile.Request{NamespacedName: key}
	switch q := r.queues[plugin].(type) {
	case nil: // Attach will find the item
	case priorityqueue.PriorityQueue[reconcile.Request]:
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, request)
	default:
		q.AddAfter(request, after)
	}
}

// wakeWhere has the selected jobs reconciled.
func (r *Router) wakeWhere(selects func(*itemstate.Entry) bool) {
	r.enqueueWoken(r.Memory.WakeWhere(r.Rules.Now(), selects))
}

// wakeFailing has the jobs of some items reconciled if they have met an error.
func (r *Router) wakeFailing(keys []types.NamespacedName) {
	r.enqueueWoken(r.Memory.WakeFailing(r.Rules.Now(), keys))
}

// enqueueWoken puts items into the queues of their plugins.
func (r *Router) enqueueWoken(plugins map[types.NamespacedName]string) {
	for key, plugin := range plugins {
		r.enqueue(plugin, key, priorityChange, 0)
	}
}
