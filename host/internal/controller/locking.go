package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/slots"
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
	Look(key lock.Key, version string) (_ lock.View, note string)
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
	if gone {
		r.locks.Forget(r.name, key)
	}
}

// unlock keeps the lock of a job that goes on later, and releases any other one. It reports whether that has succeeded.
func (r *reconciler) unlock(ctx context.Context, item types.NamespacedName) bool {
	uid, version, goesOn := r.memory.lockState(item)
	if goesOn && ctx.Err() == nil {
		r.locks.Keep(ctx, r.name, item)
		return true
	}
	err := r.locks.Release(ctx, lock.Key{Plugin: r.name, Item: item, UID: uid}, version)
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

// leaveForNow leaves an item unread for now, and says until when, where that can be decided without a request: another
// replica handles it or has found it idle, it is not due, or no slot is free for it, for which it is queued then. known
// is what is remembered of it, with its content if that is current. slotReserved: a slot is reserved for it. hooks are
// those of its type.
func (r *reconciler) leaveForNow(
	meta *metav1.PartialObjectMetadata, known entry, slotReserved bool, hooks hookSet,
) (wait reconcile.Result, skip bool) {
	key := r.lockKey(meta)
	if r.leftToOthers(key) {
		r.forget(key.Item, false)
		return pollAfter(pluginPoll), true
	}
	view, note := r.locks.Look(key, meta.ResourceVersion)
	switch view {
	case lock.Elsewhere:
		r.forget(key.Item, false)
		return pollAfter(heldPoll), true
	case lock.Settled:
		asked := hooks.asking()
		if again, noted := readNote(note, asked); noted {
			noted := hookMemory{asked: asked, again: again, begins: again}
			if wait, idle := r.idle(meta, entry{hooks: noted}, hooks); idle {
				r.memory.idleAt(key.Item, entry{uid: meta.UID, version: meta.ResourceVersion, hooks: noted})
				return wait, true
			}
		}
	default:
	}
	if wait := known.due.Sub(r.clock.Now()); known.item != nil && wait > 0 && !slotReserved {
		return pollAfter(wait), true
	}
	rank := r.locks.Rank(key)
	if rank > 0 && view != lock.Ours && !r.slots.Standby(key.Item, shareOf(meta), slots.ClassOf(rank)) {
		return pollAfter(slots.MaxStandby), true
	}
	return reconcile.Result{}, false
}

// shareOf returns the share of an item by its metadata.
func shareOf(meta *metav1.PartialObjectMetadata) slots.Share {
	target, _, _ := contract.TargetOf(meta)
	return slots.Share{Namespace: meta.Namespace, Target: target}
}

// idle reports whether an item is idle, and until when. After that, the replicas that the item prefers come first.
func (r *reconciler) idle(
	meta *metav1.PartialObjectMetadata, known entry, hooks hookSet,
) (until reconcile.Result, idle bool) {
	if !known.hooks.again.IsZero() {
		known.hooks.again = known.hooks.again.Add(r.router.delayFor(r.lockKey(meta)))
	}
	return r.until(known.hooks.again), known.isIdle(hooks, r.clock.Now())
}

// leftToOthers reports whether an item is left to replicas whose plugin runs, because the plugin here does not.
func (r *reconciler) leftToOthers(key lock.Key) bool {
	return r.locks.Rank(key) > 0 && !r.plugins.Running()[r.name]
}

// never stands in a note for no time.
const never = "never"

// idleNote is what a replica notes at the lock of an item that is idle at a version: the version, and if
// ShouldReconcile hooks ran for it, which ones, and when hooks want it to be reconciled again. A replica with the same
// hooks does not run them again.
func idleNote(version string, hooks hookMemory) string {
	if hooks.asked == "" && hooks.again.IsZero() {
		return version
	}
	until := never
	if !hooks.again.IsZero() {
		until = hooks.again.UTC().Format(time.RFC3339Nano)
	}
	return strings.Join([]string{version, digestOf(hooks.asked), until}, " ")
}

// readNote reads what idleNote has added to the version. It reports whether the hooks asked were those that ran, and
// when hooks want the item to be reconciled again; zero for never.
func readNote(note, asked string) (again time.Time, ok bool) {
	if note == "" {
		return time.Time{}, asked == ""
	}
	digest, until, _ := strings.Cut(note, " ")
	if digest != digestOf(asked) {
		return time.Time{}, false
	}
	if until == never {
		return time.Time{}, true
	}
	again, err := time.Parse(time.RFC3339Nano, until)
	return again, err == nil
}

// digestOf shortens text for a note.
func digestOf(asked string) string {
	sum := sha256.Sum256([]byte(asked))
	return hex.EncodeToString(sum[:8])
}
