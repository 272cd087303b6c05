package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// lockPoll is the pause of an item whose lock is held by another replica, if there is no event before.
	lockPoll = time.Minute
	// unlockRetry is the pause before another try to release a lock.
	unlockRetry = time.Second
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

func lockKey(plugin string, item metav1.Object) lock.Key {
	return lock.Key{
		Plugin: plugin, UID: item.GetUID(),
		Item: types.NamespacedName{Namespace: item.GetNamespace(), Name: item.GetName()},
	}
}

// unlock keeps the lock of a job that goes on later, and releases any other lock. It reports whether that succeeded.
func (r *reconciler) unlock(ctx context.Context, item types.NamespacedName) bool {
	last := r.memory.Last(item)
	if last.KeepsLock() && ctx.Err() == nil {
		r.locks.Keep(ctx, r.name, item)
		return true
	}
	err := r.locks.Release(ctx, lock.Key{Plugin: r.name, Item: item, UID: last.UID}, last.IdleAt())
	if err != nil {
		r.log.Warn("the lock of a deploy item was not released; it is tried again",
			"deployitem", item.String(), "error", err.Error())
	}
	return err == nil
}

// skip reports whether to leave an item unread, and until when. item is that of the cache. It sends no request.
func (r *reconciler) skip(
	item *v1alpha1.DeployItem, known itemstate.Entry, slotReserved bool, hooks pluginhook.Set,
) (wait reconcile.Result, skip bool) {
	needsNothing := r.needsNothing(item, known)
	if needsNothing {
		if wait, settled := r.hooksSettled(item, known, hooks); settled {
			return wait, true
		}
	}
	key := lockKey(r.name, item)
	if r.leftToOthers(key) {
		r.forget(key.Item, false)
		return pollAfter(job.PluginPoll), true
	}
	view := r.locks.Look(key, item.ResourceVersion)
	switch {
	case view == lock.Elsewhere:
		r.forget(key.Item, false)
		return pollAfter(lockPoll), true
	case view == lock.Settled && !needsNothing:
		// Another replica has finished the job at a newer version than that of the cache: there will be an event.
		return reconcile.Result{}, true
	}
	pause := known.Due.Sub(r.clock.Now())
	if pause > 0 && known.IsJob() && known.Knows(item.ResourceVersion) && !slotReserved {
		return pollAfter(pause), true
	}
	rank := r.locks.Rank(key)
	if rank > 0 && view != lock.Ours && !r.slots.Standby(key.Item, slots.ShareOf(item), slots.ClassOf(rank, false)) {
		return pollAfter(slots.MaxStandby), true
	}
	return reconcile.Result{}, false
}

// needsNothing reports whether an item needs nothing but its hooks, by the cache or by a newer version in the memory.
func (r *reconciler) needsNothing(item *v1alpha1.DeployItem, known itemstate.Entry) bool {
	switch {
	case known.Outdated:
		return false
	case known.Knows(item.ResourceVersion):
		return known.State == itemstate.Idle
	default:
		return r.rules.NeedsNothing(item)
	}
}

// hooksSettled reports whether no hook has to run for an item with nothing else to do, and the time of the next hook.
func (r *reconciler) hooksSettled(
	item *v1alpha1.DeployItem, known itemstate.Entry, hooks pluginhook.Set,
) (until reconcile.Result, settled bool) {
	if !known.Knows(item.ResourceVersion) { // it has changed since hooks were asked
		known.Hooks.Asked, known.Version = "", item.ResourceVersion
	}
	again := known.Hooks.Again
	if !again.IsZero() { // then preferred replicas come first
		again = again.Add(r.router.DelayFor(lockKey(r.name, item)))
	}
	if !known.Hooks.Settled(hooks.About(item), again, r.clock.Now()) {
		return reconcile.Result{}, false
	}
	if known.Hooks.IsEmpty() && known.Version == item.ResourceVersion {
		r.forget(client.ObjectKeyFromObject(item), false) // the cache says as much
	} else {
		r.memory.KeepIdle(item, known)
		r.contents.Drop(client.ObjectKeyFromObject(item))
	}
	return r.until(again), true
}

// leftToOthers reports whether an item is left to replicas with a running plugin, because the plugin here does not run.
func (r *reconciler) leftToOthers(key lock.Key) bool {
	return r.locks.Rank(key) > 0 && !r.plugins.Running()[r.name]
}
