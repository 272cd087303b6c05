package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// heldPoll is how long an item is skipped whose lock another replica holds, if no event says earlier that the lock
	// is free.
	heldPoll = time.Minute
	// unlockRetry is the pause before another try to release a lock.
	unlockRetry = time.Second
	// rankDelay is how long a replica waits for each one that an item prefers to it.
	rankDelay = 500 * time.Millisecond
	// maxRankDelay is how long it waits in all.
	maxRankDelay = 2 * time.Second
)

// locks keep replicas from handling the same item at the same time; see lock.Locker and lock.Off.
type locks interface {
	Look(key lock.Key, version string) lock.View
	Holds(key lock.Key) bool
	Rank(key lock.Key) int
	Serve(plugins []string)
	Acquire(ctx context.Context, key lock.Key) (*lock.Lock, error)
	Keep(ctx context.Context, plugin string, item types.NamespacedName)
	Release(ctx context.Context, key lock.Key, settled string) error
	Forget(plugin string, item types.NamespacedName)
}

// forget drops what is remembered of an item that is not handled here, or not now. gone: it does not exist any more,
// and neither does its lock.
func (r *reconciler) forget(key types.NamespacedName, gone bool) {
	r.memory.forget(key)
	r.contents.drop(key)
	if gone {
		r.locks.Forget(r.name, key)
	}
}

// unlock keeps the lock of a job that goes on later, and releases any other one. It reports whether that has succeeded.
func (r *reconciler) unlock(ctx context.Context, item types.NamespacedName) bool {
	uid, idleAt, kept := r.memory.lockState(item)
	if kept && ctx.Err() == nil {
		r.locks.Keep(ctx, r.name, item)
		return true
	}
	err := r.locks.Release(ctx, lock.Key{Plugin: r.name, Item: item, UID: uid}, idleAt)
	if err != nil {
		r.log.Warn("the lock of a deploy item was not released; it is tried again",
			"deployitem", item.String(), "error", err.Error())
	}
	return err == nil
}

func (r *reconciler) lockKey(item metav1.Object) lock.Key {
	return lock.Key{
		Plugin: r.name, UID: item.GetUID(),
		Item: types.NamespacedName{Namespace: item.GetNamespace(), Name: item.GetName()},
	}
}

var _ lock.Listener = (*router)(nil)

// delayFor is how long this replica leaves an item to those that the item prefers. It keeps them from all trying at
// once, and costs time only if they fail.
func (r *router) delayFor(key lock.Key) time.Duration {
	rank := r.locks.Rank(key)
	if rank == 0 || r.locks.Holds(key) {
		return 0
	}
	return min(time.Duration(rank)*rankDelay, maxRankDelay)
}

// Freed implements lock.Listener: the lock of an item can be had now.
func (r *router) Freed(key lock.Key) {
	r.memory.wake(key.Item, key.Plugin, r.now())
	r.enqueue(key.Plugin, key.Item, priorityChange, r.delayFor(key))
}

// Lost implements lock.Listener: what is remembered of an item is outdated.
func (r *router) Lost(key lock.Key) {
	r.memory.forget(key.Item)
	r.enqueue(key.Plugin, key.Item, priorityChange, 0)
}

// skip reports whether to leave an item unread, and until when. item is that of the cache. It sends no request.
func (r *reconciler) skip(
	item *v1alpha1.DeployItem, known entry, slotReserved bool, hooks pluginhook.Set,
) (wait reconcile.Result, skip bool) {
	needsNothing := r.needsNothing(item, known)
	if needsNothing {
		if wait, settled := r.afterHooks(item, known, hooks); settled {
			return wait, true
		}
	}
	key := r.lockKey(item)
	if r.leftToOthers(key) {
		r.forget(key.Item, false)
		return pollAfter(job.PluginPoll), true
	}
	view := r.locks.Look(key, item.ResourceVersion)
	switch {
	case view == lock.Elsewhere:
		r.forget(key.Item, false)
		return pollAfter(heldPoll), true
	case view == lock.Settled && !needsNothing:
		// Another replica has finished the job at a version that the cache does not have yet: there will be an event.
		return reconcile.Result{}, true
	}
	if wait := known.due.Sub(r.clock.Now()); wait > 0 && known.isJob() && known.knows(item.ResourceVersion) && !slotReserved {
		return pollAfter(wait), true
	}
	rank := r.locks.Rank(key)
	if rank > 0 && view != lock.Ours && !r.slots.Standby(key.Item, shareOf(item), slots.ClassOf(rank)) {
		return pollAfter(slots.MaxStandby), true
	}
	return reconcile.Result{}, false
}

// needsNothing reports whether an item needs nothing but its hooks, by the cache or by a newer version that this replica
// knows.
func (r *reconciler) needsNothing(item *v1alpha1.DeployItem, known entry) bool {
	switch {
	case known.outdated:
		return false
	case known.knows(item.ResourceVersion):
		return known.state == stateIdle
	default:
		return r.decide(item).Action == contract.Nothing && contract.UnknownOperation(item) == ""
	}
}

// afterHooks reports whether no hook has to run for an item that needs nothing else, and when one wants to. After that
// time, the replicas that the item prefers come first.
func (r *reconciler) afterHooks(
	item *v1alpha1.DeployItem, known entry, hooks pluginhook.Set,
) (until reconcile.Result, settled bool) {
	if !known.knows(item.ResourceVersion) { // it has changed since hooks were asked
		known.hooks.asked, known.version = "", item.ResourceVersion
	}
	again := known.hooks.again
	if !again.IsZero() {
		again = again.Add(r.router.delayFor(r.lockKey(item)))
	}
	if !known.hooks.settled(hooks.About(item), again, r.clock.Now()) {
		return reconcile.Result{}, false
	}
	if known.hooks.isEmpty() && known.version == item.ResourceVersion {
		r.forget(keyOf(item), false) // the cache says as much
	} else {
		r.memory.set(keyOf(item), entry{uid: item.UID, state: stateIdle, version: known.version, hooks: known.hooks})
		r.contents.drop(keyOf(item))
	}
	return r.until(again), true
}

// shareOf returns the share of an item that is no poison item.
func shareOf(item *v1alpha1.DeployItem) slots.Share {
	target, _ := contract.TargetOfItem(item)
	return slots.Share{Namespace: item.Namespace, Target: target}
}

// leftToOthers reports whether an item is left to replicas whose plugin runs, because the plugin here does not.
func (r *reconciler) leftToOthers(key lock.Key) bool {
	return r.locks.Rank(key) > 0 && !r.plugins.Running()[r.name]
}
