package lock

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// isClosed reports whether who uses a lock was told that it is not held any more.
func isClosed(lock *Lock) bool {
	select {
	case <-lock.Lost():
		return true
	default:
		return false
	}
}

// TestHeldLock is what becomes of a lock that is held here: whether it is lost, what Verify says of it, and how it is
// given back. A lock of somebody else is never given back.
func TestHeldLock(t *testing.T) {
	conflict := errors.New("conflict")
	written := func(change func(*v1alpha1.SyncObject)) func(*testing.T, *bench, Key) {
		return func(t *testing.T, _ *bench, key Key) { writeLock(t, key, change) }
	}
	seen := func(happen func(*testing.T, *bench, Key)) func(*testing.T, *bench, Key) {
		return func(t *testing.T, b *bench, key Key) { happen(t, b, key); b.see(key) }
	}
	label := written(func(o *v1alpha1.SyncObject) { o.Labels = map[string]string{"a": "b"} })
	takeOver := written(func(o *v1alpha1.SyncObject) {
		o.Spec.PodName, o.Annotations[AnnotationProcess] = "there", "there/1"
	})
	follow := written(func(o *v1alpha1.SyncObject) { o.Annotations[AnnotationProcess] = "here/2" })
	lost, lostAndFree := []string{"lost item"}, []string{"lost item", "freed item"}
	const none = "no object"
	for name, tc := range map[string]struct {
		reason string
		happen func(t *testing.T, b *bench, key Key)
		told   []string
		verify error
		// requests of Release, and its error; after an error the watch shows what there is, and it is called again.
		requests int64
		release  error
		holder   string // at last
	}{
		// Rule (architecture.md#locks): Unlocking empties `podName` and keeps the object.
		"held": {reason: "nobody has it then", requests: 1},
		"labelled, seen": {reason: "the holder is the same, and the watch tells of the new version",
			happen: seen(label), requests: 1},
		"labelled": {reason: "the holder is the same, and the watch is late",
			happen: label, requests: 1, release: conflict},
		"taken over, seen": {reason: "another one has it",
			happen: seen(takeOver), told: lost, verify: ErrLost, holder: "there"},
		"taken over": {reason: "the watch is late",
			happen: takeOver, verify: ErrLost, requests: 1, release: conflict, holder: "there"},
		"followed, seen": {reason: "the next process of the pod has it",
			happen: seen(follow), told: lostAndFree, verify: ErrLost, holder: "here"},
		"followed": {reason: "the next process of the pod has it, and the watch is late",
			happen: follow, verify: ErrLost, requests: 1, release: conflict, holder: "here"},
		"deleted, seen": {reason: "somebody else can create it", told: lostAndFree, verify: ErrLost, holder: none,
			happen: func(t *testing.T, b *bench, key Key) { b.Deleted(deleteLock(t, key)) }},
		"deleted while the watch was interrupted": {reason: "so can they", told: lostAndFree, verify: ErrLost, holder: none,
			happen: func(t *testing.T, b *bench, key Key) {
				b.Deleted(toolscache.DeletedFinalStateUnknown{Obj: deleteLock(t, key)})
			}},
		"deleted": {reason: "it does not come back", verify: ErrLost, requests: 1, holder: none,
			happen: func(t *testing.T, _ *bench, key Key) { deleteLock(t, key) }},
		"another one deleted": {reason: "it is that of before", requests: 1,
			happen: func(t *testing.T, b *bench, key Key) {
				before := readLock(t, key)
				before.ResourceVersion = "1"
				b.Deleted(before)
			}},
		"late event": {reason: "it is from before the lock was taken", requests: 1,
			happen: func(t *testing.T, b *bench, key Key) {
				before := readLock(t, key)
				before.ResourceVersion, before.Spec.PodName = "1", ""
				b.Seen(before)
			}},
		"other prefix": {reason: "it is none of ours", requests: 1,
			happen: func(_ *testing.T, b *bench, key Key) {
				b.Seen(&v1alpha1.SyncObject{
					ObjectMeta: metav1.ObjectMeta{Namespace: key.Item.Namespace, Name: "x-one-" + string(key.UID),
						ResourceVersion: "99999999"},
					Spec: v1alpha1.SyncObjectSpec{Kind: kindDeployItem, Name: "item", Prefix: "x-one", PodName: "there"},
				})
			}},
		"lapsed": {reason: "the others may take this replica for dead, but it still names this process",
			happen: func(_ *testing.T, b *bench, _ Key) { b.lapse() }, told: lost, verify: ErrLost, requests: 1},
		"no request arrives": {reason: "it is tried again", verify: errNoAnswer, requests: 1, release: errNoAnswer,
			happen: func(_ *testing.T, b *bench, _ Key) { b.api.refused = true }},
		"no answer arrives": {reason: "it was given back", verify: errNoAnswer, requests: 1, release: errNoAnswer,
			happen: func(_ *testing.T, b *bench, _ Key) { b.api.unanswered = true }},
	} {
		happened := func(t *testing.T) (*bench, Key, *Lock) {
			b, key := newBench(t, "here"), newKey()
			lock := b.acquire(key)
			if tc.happen != nil {
				tc.happen(t, b, key)
			}
			b.expectTold(tc.reason, tc.told...)
			if isLost := slices.Contains(tc.told, "lost item"); b.Holds(key) == isLost || isClosed(lock) != isLost {
				t.Errorf("%s: held %t, its user was told %t", tc.reason, b.Holds(key), isClosed(lock))
			}
			return b, key, lock
		}
		t.Run(name, func(t *testing.T) {
			b, key, lock := happened(t)
			if err := lock.Verify(t.Context()); !errors.Is(err, tc.verify) {
				t.Errorf("%s: Verify says %v", tc.reason, err)
			}
			if b.Holds(key) == errors.Is(tc.verify, ErrLost) {
				t.Errorf("%s: after Verify: held %t", tc.reason, b.Holds(key))
			}

			b, key, lock = happened(t)
			b.api.requests.Store(0)
			err := b.Release(t.Context(), key, "")
			if apierrors.IsConflict(err) {
				err = conflict
			}
			if !errors.Is(err, tc.release) {
				t.Errorf("%s: Release says %v", tc.reason, err)
			}
			if b.Holds(key) || !isClosed(lock) || b.api.requests.Load() != tc.requests {
				t.Errorf("%s: held %t after %d requests", tc.reason, b.Holds(key), b.api.requests.Load())
			}
			if err != nil {
				b.api.refused, b.api.unanswered = false, false
				b.see(key)
				b.release(Key{Plugin: key.Plugin, Item: key.Item}, "") // the item may be forgotten meanwhile
			}
			if tc.holder != none {
				expectHolder(t, tc.reason, key, tc.holder)
			} else if readLock(t, key) != nil {
				t.Errorf("%s: a lock that was deleted came back", tc.reason)
			}
		})
	}
}

// TestReleaseWithoutAnswer: the lock was given back, and nobody here knows. It is not to be worked under.
func TestReleaseWithoutAnswer(t *testing.T) {
	b, key := newBench(t, "here"), newKey()
	lock := b.acquire(key)
	lock.SetFenced()
	b.api.unanswered = true
	if err := b.Release(t.Context(), key, ""); !errors.Is(err, errNoAnswer) {
		t.Errorf("expected the error of the request, but found %v", err)
	}
	b.api.unanswered = false
	b.acquireInVain("somebody else may have it by now", key)
	b.see(key)
	b.expectTold("it was given back", "freed item")
	if again := b.acquire(key); again == lock || again.Fenced() {
		t.Error("a lock that may have been given back is used on")
	}
}

// TestLapse: what was counted as lost is had again when this replica is valid again, if nobody has taken it.
func TestLapse(t *testing.T) {
	b, key := newBench(t, "here"), newKey()
	lock := b.acquire(key)
	lock.SetFenced()
	if !lock.Fenced() {
		t.Error("the item was changed under this lock")
	}
	b.valid = false
	b.acquireInVain("not even what is held is used", key)
	b.lapse()
	b.expectTold("the Lease has lapsed", "lost item")
	b.ReplicasChanged()
	b.expectTold("the Lease was renewed", "freed item")
	b.api.refused = true
	if _, err := b.Acquire(t.Context(), key); !errors.Is(err, errNoAnswer) {
		t.Errorf("expected the error of the request, but found %v", err)
	}
	b.api.refused = false
	if again := b.acquire(key); again == lock || again.Fenced() {
		t.Error("somebody may have had the lock meanwhile, and written to the item")
	}
	b.expectFigures(figures{Acquired: 2, Lost: 1, Held: 1})

	b.lapse()
	b.api.refused = true
	_, _ = b.Acquire(t.Context(), key)
	b.api.refused = false
	b.release(key, "")
	expectHolder(t, "it was not taken again, but names this process", key, "")
}

// TestLapseAlone: with no other replica, a lapse takes no lock away, and gives none. As soon as another one is known,
// it takes all.
// Rule (architecture.md#limits): A host without other replicas goes on with its calls when its API server does not
// answer.
func TestLapseAlone(t *testing.T) {
	b, key, other := newBench(t, "here"), newKey(), newKey()
	b.alone = true
	lock := b.acquire(key)
	lock.SetFenced()
	b.valid = false
	b.ReplicasChanged()
	b.expectTold("nobody could take it over")
	if !b.Holds(key) || !lock.Fenced() {
		t.Error("the lock was lost")
	}
	b.acquireInVain("no new work begins", other)
	b.alone = false
	b.ReplicasChanged()
	b.expectTold("another one has come", "lost "+key.Item.Name)
}

// TestStart: a host that stops gives back what is not in use at once, and the rest with its calls; it takes nothing
// any more.
func TestStart(t *testing.T) {
	b, busy := newBench(t, "here"), newKey()
	idle := busy
	idle.Plugin = "two"
	b.acquire(busy)
	b.acquire(idle)
	b.Keep(t.Context(), idle.Plugin, idle.Item)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	expectHolder(t, "it is not in use", idle, "")
	expectHolder(t, "its call is under way", busy, "here")
	b.acquireInVain("the host stops", idle)
	b.acquire(busy)
	b.api.refused = true
	b.Keep(ctx, busy.Plugin, busy.Item)
	b.expectTold("who looks at the item tries again", "freed item")
	b.api.refused = false
	b.Keep(ctx, busy.Plugin, busy.Item)
	expectHolder(t, "its call has ended", busy, "")
	b.Keep(ctx, busy.Plugin, busy.Item) // nothing is held
}
