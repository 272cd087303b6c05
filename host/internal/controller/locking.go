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

	"github.com/pergola-deploy/pergola/host/internal/lock"
)

const (
	// elsewherePoll is how long an item is left alone that another replica works on, should it not be
	// announced earlier that it is free.
	elsewherePoll = time.Minute
	// unlockRetry is the pause before another try to give a lock back.
	unlockRetry = time.Second
	// rankPatience is how long a replica waits for each one that comes before it for an item.
	rankPatience = 500 * time.Millisecond
	// maxPatience is how long it waits at all.
	maxPatience = 2 * time.Second
)

// locks keep replicas from working on the same item at the same time; see lock.Locker and lock.Off.
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

// forget drops what is remembered of an item that is not to be worked on here, or not now; what is held of it is
// given back, unless it is gone.
func (r *reconciler) forget(key types.NamespacedName, gone bool) {
	r.memory.forget(key)
	if gone {
		r.locks.Forget(r.name, key)
	}
}

// unlock holds the lock of a job on that goes on later, and gives any other one back. It reports whether that is done.
func (r *reconciler) unlock(ctx context.Context, item types.NamespacedName) bool {
	uid, version, goesOn := r.memory.state(item)
	if goesOn && ctx.Err() == nil {
		r.locks.Keep(ctx, r.name, item)
		return true
	}
	err := r.locks.Release(ctx, lock.Key{Plugin: r.name, Item: item, UID: uid}, version)
	if err != nil {
		r.log.Warn("the lock of a deploy item was not given back; it is tried again",
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

// patienceFor is how long this replica leaves an item to those that come before it. It keeps them from all trying at
// once, and costs time only if they fail.
func (r *router) patienceFor(key lock.Key) time.Duration {
	rank := r.locks.Rank(key)
	if rank == 0 || r.locks.Holds(key) {
		return 0
	}
	return min(time.Duration(rank)*rankPatience, maxPatience)
}

// Freed implements lock.Listener: an item can be worked on that another replica has worked on.
func (r *router) Freed(key lock.Key) {
	r.memory.wake(key.Item, key.Plugin, r.now())
	r.enqueue(key.Plugin, key.Item, priorityChange, r.patienceFor(key))
}

// Lost implements lock.Listener: what is remembered of an item does not count any more.
func (r *router) Lost(key lock.Key) {
	r.memory.forget(key.Item)
	r.enqueue(key.Plugin, key.Item, priorityChange, 0)
}

// skip tells from what is known without a request whether there is nothing to be done about an item here and now, and
// when to reconcile it again then. known is what is remembered of the item, with its content if that is current;
// slotKept reports whether a slot is kept for it; hooks are those of its type.
func (r *reconciler) skip(
	meta *metav1.PartialObjectMetadata, known entry, slotKept bool, hooks hookSet,
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
		return pollAfter(elsewherePoll), true
	case lock.Settled:
		asked := hooks.asking()
		if again, noted := readNote(note, asked); noted {
			noted := hookMemory{asked: asked, again: again, begins: again}
			if wait, idle := r.idles(meta, entry{hooks: noted}, hooks); idle {
				r.memory.noted(key.Item, meta.UID, meta.ResourceVersion, noted)
				return wait, true
			}
		}
	default:
	}
	if wait := known.due.Sub(r.clock.Now()); known.item != nil && wait > 0 && !slotKept {
		return pollAfter(wait), true
	}
	if rank := r.locks.Rank(key); rank > 0 && view != lock.Ours && !r.slots.standby(key.Item, placeOf(rank)) {
		return pollAfter(maxStandby), true
	}
	return reconcile.Result{}, false
}

// idles reports whether an item that has nothing to do is to be left alone, and until when. When its time has come,
// those replicas come first that the item prefers.
func (r *reconciler) idles(
	meta *metav1.PartialObjectMetadata, known entry, hooks hookSet,
) (until reconcile.Result, idles bool) {
	if !known.hooks.again.IsZero() {
		known.hooks.again = known.hooks.again.Add(r.router.patienceFor(r.lockKey(meta)))
	}
	return r.until(known.hooks.again), known.idles(hooks.asking(), r.clock.Now())
}

// leftToOthers reports whether an item is left to replicas whose plugin runs, because the one here does not.
func (r *reconciler) leftToOthers(key lock.Key) bool {
	return r.locks.Rank(key) > 0 && !r.plugins.Running()[r.name]
}

// never stands in a note for no time.
const never = "never"

// idleNote is what a replica leaves with the lock of an item that has nothing to do at a version: the version, and
// if hooks were asked about the item, which ones and when they want it to be reconciled again. Whoever has the same
// hooks need not ask them.
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

// readNote reads what idleNote has added to the version. It reports whether these hooks were asked, and when they
// want the item to be reconciled again; zero for never.
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

// digestOf is short enough for a note.
func digestOf(asked string) string {
	sum := sha256.Sum256([]byte(asked))
	return hex.EncodeToString(sum[:8])
}
