package lock

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func takenOver(o *v1alpha1.SyncObject) {
	o.Spec.PodName, o.Annotations[AnnotationProcess] = "there", "there/1"
}

func TestRelease(t *testing.T) {
	cases := map[string]struct {
		reason string
		// happen is what happens between the lock is taken and given back; it is not seen unless it says so.
		happen   func(t *testing.T, b *bench, key *Key)
		settled  string
		requests int
		holder   string
	}{
		"held": {reason: "nobody has it then", settled: "5", requests: 1},
		"any item": {reason: "what is forgotten is given back",
			happen: func(_ *testing.T, _ *bench, key *Key) { key.UID = "" }, requests: 1},
		"labelled, seen": {
			reason: "the watch tells of the new version", requests: 1,
			happen: func(t *testing.T, b *bench, key *Key) {
				writeLock(t, *key, func(o *v1alpha1.SyncObject) { o.Labels = map[string]string{"a": "b"} })
				b.see(*key)
			},
		},
		"lost, seen": {
			reason: "there is nothing to do", requests: 0, holder: "there",
			happen: func(t *testing.T, b *bench, key *Key) {
				writeLock(t, *key, takenOver)
				b.see(*key)
			},
		},
		"counted as lost": {
			reason: "it still names this process", requests: 1,
			happen: func(_ *testing.T, b *bench, _ *Key) { b.lapse() },
		},
		"forgotten": {
			reason: "the item is gone, and nobody needs the lock", requests: 0, holder: "here",
			happen: func(_ *testing.T, b *bench, key *Key) {
				b.Forget(key.Plugin, key.Item)
				key.UID = ""
			},
		},
		"of an item before": {
			reason: "the item of this UID was never locked here", requests: 0, holder: "here",
			happen: func(_ *testing.T, _ *bench, key *Key) { key.UID = "next" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, key := newBench(t, "here"), newKey()
			lock := b.acquire(key)
			named := key
			if tc.happen != nil {
				tc.happen(t, b, &named)
			}
			b.api.requests = 0
			b.release(named, tc.settled)
			if b.Holds(key) || b.api.requests != tc.requests {
				t.Errorf("%s: expected %d requests, but found %d", tc.reason, tc.requests, b.api.requests)
			}
			select {
			case <-lock.Lost():
			default:
				t.Errorf("%s: who uses the lock has not been told", tc.reason)
			}
			expectHolder(t, tc.reason, key, tc.holder)
			notes := readLock(t, key).Annotations
			if notes[AnnotationSettled] != tc.settled || tc.holder == "" && notes[AnnotationProcess] != "" {
				t.Errorf("%s: unexpected notes: %v", tc.reason, notes)
			}
		})
	}
}

func TestReleaseOfADeletedLock(t *testing.T) {
	b, key := newBench(t, "here"), newKey()
	b.acquire(key)
	deleteLock(t, key)
	b.release(key, "5")
	if b.Holds(key) || readLock(t, key) != nil {
		t.Error("a lock that was deleted came back")
	}
}

func TestReleaseFails(t *testing.T) {
	b, key := newBench(t, "here"), newKey()
	b.acquire(key)
	b.api.refused = true
	if err := b.Release(t.Context(), key, ""); !errors.Is(err, errNoAnswer) {
		t.Errorf("expected the error of the request, but found %v", err)
	}
	b.api.refused = false
	b.release(Key{Plugin: key.Plugin, Item: key.Item}, "") // the item is forgotten meanwhile
	expectHolder(t, "it is tried again", key, "")
}

// TestReleaseWithoutAnswer: the lock was given back, and nobody here knows. It is not to be worked under.
func TestReleaseWithoutAnswer(t *testing.T) {
	prepare := func(t *testing.T) (*bench, Key, *Lock) {
		b, key := newBench(t, "here"), newKey()
		lock := b.acquire(key)
		lock.SetFenced()
		b.api.unanswered = true
		if err := b.Release(t.Context(), key, ""); !errors.Is(err, errNoAnswer) {
			t.Errorf("expected the error of the request, but found %v", err)
		}
		b.api.unanswered = false
		return b, key, lock
	}
	t.Run("again", func(t *testing.T) {
		b, key, _ := prepare(t)
		if err := b.Release(t.Context(), key, ""); !apierrors.IsConflict(err) {
			t.Errorf("expected a conflict with the first one, but found %v", err)
		}
		b.see(key)
		b.release(key, "")
		expectHolder(t, "it was given back before", key, "")
	})
	t.Run("wanted", func(t *testing.T) {
		b, key, lock := prepare(t)
		b.acquireInVain("somebody else may have it by now", key)
		b.see(key)
		b.expectTold("it was given back", "freed item")
		if again := b.acquire(key); again == lock || again.Fenced() {
			t.Error("a lock that may have been given back is used on")
		}
	})
	t.Run("taken by another one", func(t *testing.T) {
		b, key := newBench(t, "here"), newKey()
		b.acquire(key)
		b.api.unanswered = true
		b.api.between = func() {
			b.see(key)
			writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Spec.PodName = "there" })
			b.see(key)
		}
		if err := b.Release(t.Context(), key, ""); err == nil {
			t.Error("expected an error")
		}
		b.api.unanswered, b.api.between = false, nil
		b.release(key, "")
		expectHolder(t, "it is not ours to give back", key, "there")
	})
}

// TestReleaseMeetsAConflict: somebody has written to the lock, and the watch has not told of it yet. What that was it
// tells in a moment.
func TestReleaseMeetsAConflict(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(*v1alpha1.SyncObject)
		freed  bool
		holder string
	}{
		"labelled": {"it is still ours", func(o *v1alpha1.SyncObject) { o.Labels = map[string]string{"a": "b"} }, true, ""},
		"lost":     {"it is not ours to give back", takenOver, false, "there"},
		"followed": {
			"the next process of the pod has it", func(o *v1alpha1.SyncObject) { o.Annotations[AnnotationProcess] = "here/2" },
			true, "here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, key := newBench(t, "here"), newKey()
			b.acquire(key)
			writeLock(t, key, tc.change)
			if err := b.Release(t.Context(), key, ""); !apierrors.IsConflict(err) || b.Holds(key) {
				t.Errorf("%s: expected a conflict, but found %v, held %t", tc.reason, err, b.Holds(key))
			}
			b.see(key)
			if tc.freed {
				b.expectTold(tc.reason, "freed item")
			}
			b.release(key, "")
			expectHolder(t, tc.reason, key, tc.holder)
		})
	}
}

func TestLost(t *testing.T) {
	cases := map[string]struct {
		reason string
		happen func(t *testing.T, b *bench, key Key)
		lost   bool
		// freed: it can be had again at once.
		freed bool
	}{
		"label": {reason: "the holder is the same", happen: func(t *testing.T, b *bench, key Key) {
			writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Labels = map[string]string{"a": "b"} })
			b.see(key)
		}},
		"taken over": {reason: "another one has it", lost: true, happen: func(t *testing.T, b *bench, key Key) {
			writeLock(t, key, takenOver)
			b.see(key)
		}},
		"followed": {reason: "another process of the pod has it", lost: true, freed: true,
			happen: func(t *testing.T, b *bench, key Key) {
				writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Annotations[AnnotationProcess] = "here/2" })
				b.see(key)
			}},
		"deleted": {reason: "somebody else can create it", lost: true, freed: true,
			happen: func(t *testing.T, b *bench, key Key) {
				b.Deleted(deleteLock(t, key))
			}},
		"deleted, unseen": {reason: "the watch was interrupted", lost: true, freed: true,
			happen: func(t *testing.T, b *bench, key Key) {
				b.Deleted(toolscache.DeletedFinalStateUnknown{Obj: deleteLock(t, key)})
			}},
		"another one deleted": {reason: "it is that of before", happen: func(t *testing.T, b *bench, key Key) {
			before := readLock(t, key)
			before.ResourceVersion = "1"
			b.Deleted(before)
		}},
		"late event": {reason: "it is from before the lock was taken", happen: func(t *testing.T, b *bench, key Key) {
			before := readLock(t, key)
			before.ResourceVersion, before.Spec.PodName = "1", ""
			b.Seen(before)
		}},
		"other prefix": {reason: "it is none of ours", happen: func(_ *testing.T, b *bench, key Key) {
			b.Seen(&v1alpha1.SyncObject{
				ObjectMeta: metav1.ObjectMeta{Namespace: key.Item.Namespace, Name: "x-one-" + string(key.UID),
					ResourceVersion: "99999999"},
				Spec: v1alpha1.SyncObjectSpec{Kind: kindDeployItem, Name: "item", Prefix: "x-one", PodName: "there"},
			})
		}},
		"lapsed": {reason: "the others may take this replica for dead", lost: true,
			happen: func(_ *testing.T, b *bench, _ Key) { b.lapse() }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, key := newBench(t, "here"), newKey()
			lock := b.acquire(key)
			tc.happen(t, b, key)
			var told []string
			if tc.lost {
				told = append(told, "lost item")
			}
			if tc.freed {
				told = append(told, "freed item")
			}
			if b.expectTold(tc.reason, told...); b.Holds(key) == tc.lost {
				t.Errorf("%s: held %t", tc.reason, b.Holds(key))
			}
			select {
			case <-lock.Lost():
				if !tc.lost {
					t.Errorf("%s: who uses the lock was told that it is lost", tc.reason)
				}
			default:
				if tc.lost {
					t.Errorf("%s: who uses the lock was not told", tc.reason)
				}
			}
		})
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
	b.valid = true
	b.ReplicasChanged()
	b.expectTold("the Lease was renewed", "freed item")
	if again := b.acquire(key); again == lock || again.Fenced() {
		t.Error("somebody may have had the lock meanwhile, and written to the item")
	}
	b.expectFigures(figures{Acquired: 2, Lost: 1, Held: 1})
}

func TestVerify(t *testing.T) {
	cases := map[string]struct {
		reason string
		happen func(t *testing.T, b *bench, key Key)
		want   error
	}{
		"held": {reason: "nothing has happened", happen: func(*testing.T, *bench, Key) {}},
		"labelled": {reason: "the holder is the same", happen: func(t *testing.T, _ *bench, key Key) {
			writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Labels = map[string]string{"a": "b"} })
		}},
		"taken over": {reason: "the watch is late", want: ErrLost,
			happen: func(t *testing.T, _ *bench, key Key) { writeLock(t, key, takenOver) }},
		"deleted": {reason: "the watch is late", want: ErrLost,
			happen: func(t *testing.T, _ *bench, key Key) { deleteLock(t, key) }},
		"known": {reason: "the watch has told of it", want: ErrLost,
			happen: func(_ *testing.T, b *bench, _ Key) { b.lapse() }},
		"unknown": {reason: "there is no answer", want: errNoAnswer,
			happen: func(_ *testing.T, b *bench, _ Key) { b.api.refused = true }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, key := newBench(t, "here"), newKey()
			lock := b.acquire(key)
			tc.happen(t, b, key)
			if err := lock.Verify(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("%s: expected %v, but found %v", tc.reason, tc.want, err)
			}
			if b.Holds(key) != (tc.want == nil || errors.Is(tc.want, errNoAnswer)) {
				t.Errorf("%s: held %t", tc.reason, b.Holds(key))
			}
		})
	}
}

// other is the lock of another plugin in the same namespace.
func other(key Key) Key {
	key.Plugin = "two"
	return key
}

// TestStart: a host that stops gives back what is not in use at once, and the rest with its calls; it takes nothing
// any more.
func TestStart(t *testing.T) {
	b, busy := newBench(t, "here"), newKey()
	idle := other(busy)
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
	b.Keep(ctx, busy.Plugin, busy.Item)
	expectHolder(t, "its call has ended", busy, "")
	b.Keep(ctx, busy.Plugin, busy.Item) // nothing is held
}

func TestReleaseAll(t *testing.T) {
	b, key := newBench(t, "here"), newKey()
	served, busy := other(key), newKey()
	for _, k := range []Key{key, served, busy} {
		b.acquire(k)
	}
	b.Keep(t.Context(), key.Plugin, key.Item)
	b.Keep(t.Context(), served.Plugin, served.Item)
	b.ReleaseAll(t.Context(), key.Plugin)
	expectHolder(t, "the plugin serves nothing here any more", key, "")
	expectHolder(t, "another plugin does", served, "here")
	expectHolder(t, "its call is under way", busy, "here")
}

func TestReleaseAllFails(t *testing.T) {
	b, key := newBench(t, "here"), newKey()
	b.acquire(key)
	b.Keep(t.Context(), key.Plugin, key.Item)
	b.api.refused = true
	b.ReleaseAll(t.Context(), key.Plugin)
	b.api.refused = false
	expectHolder(t, "it is free when this replica is gone", key, "here")
	b.expectTold("who looks at the item tries again", "freed item")
	b.release(key, "")
	expectHolder(t, "it is tried again", key, "")
}
