package lock

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestOneLock is the life of a lock between two replicas.
// Rule (architecture.md#locks): A lock is a SyncObject with the name of plugin and item, and with the Pod of its
// holder.
func TestOneLock(t *testing.T) {
	here, there, key := newBench(t, "here"), newBench(t, "there"), newKey()
	here.expectView("nobody has asked for it", key, "5", Free)
	begun := time.Now()
	lock := here.acquire(key)
	object := readLock(t, key)
	want := v1alpha1.SyncObjectSpec{
		PodName: "here", Kind: "DeployItem", Name: "item", Prefix: "one", LastUpdateTime: object.Spec.LastUpdateTime,
	}
	if diff := gocmp.Diff(want, object.Spec); diff != "" {
		t.Errorf("the lock is not as other implementations make it (-want +got):\n%s", diff)
	}
	if object.Annotations[AnnotationProcess] != "here/1" || object.Name != "one-"+string(key.UID) {
		t.Errorf("unexpected lock: %+v", object)
	}
	if again := here.acquire(key); again != lock || !here.Holds(key) || here.api.requests.Load() != 1 {
		t.Errorf("expected one request for a lock that is held already, but found %d", here.api.requests.Load())
	}
	here.expectView("it is held", key, "5", Ours)

	if held := here.Held(); len(held) != 1 || held[0].UID != key.UID || held[0].Since.Before(begun) ||
		held[0].Since.After(time.Now()) {
		t.Errorf("expected that %v is held since a moment ago, but found %v", key, held)
	}

	there.acquireInVain("it does not know of the lock yet", key)
	if held := there.Held(); len(held) != 0 {
		t.Errorf("expected that nothing is held there, but found %v", held)
	}
	there.see(key)
	there.expectView("it knows by now", key, "5", Elsewhere)
	there.acquireInVain("it knows by now", key)
	if there.api.requests.Load() != 1 {
		t.Errorf("expected no request for a lock that is known to be taken, but found %d", there.api.requests.Load())
	}
	there.told = nil

	here.release(key, "7")
	there.see(key)
	there.expectTold("the lock was given back", "freed item")
	for _, b := range []*bench{here, there} {
		b.expectView("the item is as the holder has left it", key, "7", Settled)
	}
	there.expectView("the item has changed since", key, "8", Free)
	there.acquire(key)
	if object := readLock(t, key); object.Annotations[AnnotationSettled] != "" ||
		object.Annotations[AnnotationProcess] != "there/1" {
		t.Errorf("unexpected notes on the lock: %v", object.Annotations)
	}
	here.acquireInVain("its watch is late", key)
	here.expectFigures(figures{Acquired: 1, Conflicts: 1})
	there.expectFigures(figures{Acquired: 1, Conflicts: 1, Held: 1})
}

// TestAcquireInVain: who does not get a lock hears of it when it is free.
func TestAcquireInVain(t *testing.T) {
	giveBack := func(t *testing.T, b *bench, key Key) {
		b.api.between = nil
		writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Spec.PodName = "" })
		b.see(key)
	}
	valid := func(_ *testing.T, b *bench, _ Key) {
		b.valid, b.api.between = true, nil
		b.ReplicasChanged()
	}
	held := func(t *testing.T, b *bench, key Key) { newLock(t, key, "there"); b.see(key) }
	for name, tc := range map[string]struct {
		reason   string
		prepare  func(t *testing.T, b *bench, key Key)
		requests int64
		err      error // ErrHeld if it is nil
		// free is what happens until it is free; nil if it is so already.
		free func(t *testing.T, b *bench, key Key)
	}{
		"held": {reason: "somebody alive has it", prepare: held, free: giveBack},
		"late watch, no lock known": {reason: "somebody has just created it", requests: 1, free: giveBack,
			prepare: func(t *testing.T, _ *bench, key Key) { newLock(t, key, "there") }},
		// Rule (architecture.md#why-they-are-safe): Of two replicas that take a lock at once, one gets it.
		"late watch, lock known": {reason: "somebody has just taken it", requests: 1, free: giveBack,
			prepare: func(t *testing.T, b *bench, key Key) {
				newLock(t, key, "")
				b.see(key)
				writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Spec.PodName = "there" })
			}},
		"late watch, over": {reason: "the watch has told all before the answer comes", requests: 1,
			prepare: func(t *testing.T, b *bench, key Key) {
				newLock(t, key, "there")
				b.api.between = func() { giveBack(t, b, key) }
			}},
		"late watch, deleted": {reason: "it can be created", requests: 1,
			prepare: func(t *testing.T, b *bench, key Key) { newLock(t, key, ""); b.see(key); deleteLock(t, key) }},
		"dead later": {reason: "the holder dies", prepare: held, free: func(_ *testing.T, b *bench, _ Key) {
			b.dead["there"] = true
			b.ReplicasChanged()
		}},
		"not valid": {reason: "this replica may be dead for the others", free: valid,
			prepare: func(_ *testing.T, b *bench, _ Key) { b.valid = false }},
		"not valid any more": {reason: "the Lease lapses while the request is under way", requests: 1, free: valid,
			prepare: func(_ *testing.T, b *bench, _ Key) { b.api.between = func() { b.valid = false } }},
		"taken over at once": {reason: "the watch is faster than the answer", requests: 1, free: giveBack,
			prepare: func(t *testing.T, b *bench, key Key) {
				b.api.between = func() {
					writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Spec.PodName = "there" })
					b.see(key)
				}
			}},
		"no answer": {reason: "it was taken, and nobody knows before the watch shows it", requests: 1, err: errNoAnswer,
			prepare: func(_ *testing.T, b *bench, _ Key) { b.api.unanswered = true },
			free:    func(_ *testing.T, b *bench, key Key) { b.api.unanswered = false; b.see(key) }},
	} {
		t.Run(name, func(t *testing.T) {
			b, key := newBench(t, "here"), newKey()
			tc.prepare(t, b, key)
			if _, err := b.Acquire(t.Context(), key); !errors.Is(err, cmp.Or(tc.err, ErrHeld)) {
				t.Errorf("%s: found %v", tc.reason, err)
			}
			if b.Holds(key) || b.api.requests.Load() != tc.requests {
				t.Errorf("%s: expected %d requests, but found %d", tc.reason, tc.requests, b.api.requests.Load())
			}
			if tc.free != nil {
				b.expectTold("nothing has happened yet")
				tc.free(t, b, key)
			}
			b.expectTold(tc.reason, "freed item")
			b.acquire(key)
		})
	}
}

func TestHolders(t *testing.T) {
	process := func(process string) []func(*v1alpha1.SyncObject) {
		return []func(*v1alpha1.SyncObject){func(o *v1alpha1.SyncObject) {
			o.Annotations = map[string]string{AnnotationProcess: process}
		}}
	}
	taken, takenOver := figures{Acquired: 1, Held: 1}, figures{Acquired: 1, TakenOver: 1, Held: 1}
	cases := map[string]struct {
		reason string
		pod    string
		change []func(*v1alpha1.SyncObject)
		want   View
		stats  figures
	}{
		"nobody": {reason: "it was given back", pod: "", want: Free, stats: taken},
		// Rule (architecture.md#locks): A lock of a live holder is not taken.
		"alive": {reason: "its pod is there", pod: "there", want: Elsewhere},
		// Rule (architecture.md#locks): The lock of a dead holder is taken over.
		"dead":       {reason: "its pod is gone", pod: "gone", want: Free, stats: takenOver},
		"seems dead": {reason: "the pod is there when it is read", pod: "unseen", want: Free},
		"not known":  {reason: "the pod cannot be read", pod: "unreadable", want: Free},
		"no name":    {reason: "nothing can be found out about it", pod: "nopodname", want: Elsewhere},
		"earlier process": {reason: "a pod has one process at a time", pod: "here", change: process("here/0"),
			want: Free, stats: takenOver},
		"this process": {reason: "it was counted as lost", pod: "here", change: process("here/1"),
			want: Free, stats: taken},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, key := newBench(t, "here"), newKey()
			b.dead["gone"], b.seemDead = true, []string{"unseen", "unreadable"}
			newLock(t, key, tc.pod, tc.change...)
			b.see(key)
			b.expectView(tc.reason, key, "5", tc.want)
			if tc.stats == (figures{}) {
				if _, err := b.Acquire(t.Context(), key); err == nil || errors.Is(err, ErrHeld) == (tc.pod == "unreadable") {
					t.Errorf("%s: found %v", tc.reason, err)
				}
				expectHolder(t, tc.reason, key, tc.pod)
				return
			}
			lock, before := b.acquire(key), ""
			if tc.stats.TakenOver > 0 {
				before = tc.pod
			}
			if lock.Fenced() || lock.Before() != before {
				t.Errorf("a new lock has fenced nobody off yet: %t, after the dead holder %q", lock.Fenced(), lock.Before())
			}
			b.expectFigures(tc.stats)
			expectHolder(t, tc.reason, key, "here")
		})
	}
}

func TestNamesOfLocks(t *testing.T) {
	object := func(name, prefix, kind string) *v1alpha1.SyncObject {
		return &v1alpha1.SyncObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       v1alpha1.SyncObjectSpec{Kind: kind, Name: "item", Prefix: prefix},
		}
	}
	cases := map[string]struct {
		reason string
		prefix string
		object *v1alpha1.SyncObject
		plugin string // empty: none of ours
	}{
		"ours": {"no prefix is set", "", object("one-u", "one", "DeployItem"), "one"},
		// Rule (architecture.md#locks): The name of a lock has an optional prefix, the plugin's name and the UID of the
		// item.
		"ours, prefix":        {"the prefix is part of the name", "x-", object("x-one-u", "x-one", "DeployItem"), "one"},
		"other prefix":        {"another installation's", "x-", object("y-one-u", "y-one", "DeployItem"), ""},
		"no prefix":           {"another installation's", "x-", object("one-u", "one", "DeployItem"), ""},
		"prefix alone":        {"there is no plugin", "x-", object("x--u", "x-", "DeployItem"), ""},
		"other kind":          {"installations are no matter of deployers", "", object("one-u", "one", "Installation"), ""},
		"name without prefix": {"somebody has made it by hand", "", object("two-u", "one", "DeployItem"), ""},
		"no UID":              {"the name has to end in one", "", object("one-", "one", "DeployItem"), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			key, ours := keyOf(tc.prefix, tc.object)
			if ours != (tc.plugin != "") || key.Plugin != tc.plugin {
				t.Errorf("%s: expected plugin %q, but found %+v", tc.reason, tc.plugin, key)
			}
			if ours && objectName(tc.prefix, key).Name != tc.object.Name {
				t.Errorf("%s: the name of %+v is not %s", tc.reason, key, tc.object.Name)
			}
		})
	}
}

// TestSameName: an item that was created again is another one.
// Rule (architecture.md#locks): An item created again under the same name has another lock.
func TestSameName(t *testing.T) {
	b, old := newBench(t, "here"), newKey()
	lock := b.acquire(old)
	next := old
	next.UID = "next"
	b.expectView("it is that of the item before", next, "5", Free)
	if b.Holds(next) {
		t.Error("the lock of the item before is taken for that of the next one")
	}
	second := b.acquire(next)
	if !isClosed(lock) {
		t.Error("the lock of an item that is gone is still held")
	}
	b.release(old, "")
	if !isClosed(second) {
		t.Error("a plugin works on one item of a name")
	}
	expectHolder(t, "the lock of another item is not given back", next, "here")
	b.acquire(next)
	b.Forget(next.Plugin, next.Item)
	b.release(Key{Plugin: old.Plugin, Item: old.Item}, "")
	expectHolder(t, "nobody needs the lock of an item that is gone", next, "here")
	if b.Holds(next) {
		t.Error("it is held after its item is gone")
	}
}

// TestTwoPlugins: each plugin has its own lock of an item, so that neither waits for the other.
// Rule (architecture.md#locks): Two plugins have locks of their own for one item.
func TestTwoPlugins(t *testing.T) {
	here, there, key := newBench(t, "here"), newBench(t, "there"), newKey()
	other := key
	other.Plugin = "two"
	here.acquire(key)
	there.acquire(other)
	expectHolder(t, "the lock of one plugin", key, "here")
	expectHolder(t, "the lock of the other one", other, "there")
}

// TestFreedUntilLookedAt: who leaves a free lock to those that come first hears when they are gone.
func TestFreedUntilLookedAt(t *testing.T) {
	key, b := newKey(), newBench(t, "here")
	newLock(t, key, "there")
	b.see(key)
	b.expectView("another one has it", key, "", Elsewhere)
	writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Spec.PodName = "" })
	b.see(key)
	b.expectTold("it was released", "freed item")
	b.ReplicasChanged()
	b.expectTold("another replica leaves", "freed item")
	b.expectView("nobody has it", key, "", Free)
	b.ReplicasChanged()
	b.expectTold("it was looked at")
}

// TestNamespaceIsDeleted: no lock can be created, so the replica that the item prefers works without.
func TestNamespaceIsDeleted(t *testing.T) {
	key, first, second := newKey(), newBench(t, "here"), newBench(t, "there")
	first.api.terminating, second.api.terminating = true, true
	second.rank = 1
	second.acquireInVain("the first one does without an object", key)
	lock := first.acquire(key)
	if err := lock.Verify(t.Context()); err != nil || readLock(t, key) != nil {
		t.Errorf("there can be no object, but Verify says %v", err)
	}
	second.rank = 0
	second.ReplicasChanged()
	second.expectTold("it is the first one now", "freed item")
	first.rank = 1
	first.ReplicasChanged()
	first.expectTold("it is not the first one any more, and may ask again", "lost item", "freed item")
	if err := lock.Verify(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("expected %q, but found %v", ErrLost, err)
	}
	second.acquire(key)
	second.release(key, "5")
	if second.Holds(key) {
		t.Error("it was not given back")
	}
}

// TestLockIsDeletedWithItsNamespace: who has held it goes on without, as long as it is alive, whatever the item
// prefers.
func TestLockIsDeletedWithItsNamespace(t *testing.T) {
	first, second, key := newBench(t, "here"), newBench(t, "there"), newKey()
	first.rank = 1
	first.acquire(key)
	second.see(key)
	first.api.terminating, second.api.terminating = true, true
	object := deleteLock(t, key)
	first.Deleted(object)
	second.Deleted(object)
	first.expectTold("its lock has no object any more", "lost item", "freed item")
	second.acquireInVain("the holder is alive", key)
	if first.acquire(key).Fenced() {
		t.Error("somebody may have written to the item since the lock was lost")
	}
	second.told = nil
	second.dead["here"] = true
	second.ReplicasChanged()
	second.expectTold("the last holder is dead", "freed item")
	second.acquire(key)
}

func TestOff(t *testing.T) {
	var off Off
	key := Key{Plugin: "one", Item: types.NamespacedName{Namespace: "ns", Name: "item"}, UID: "u"}
	lock, err := off.Acquire(t.Context(), key)
	heldUp := err != nil || !lock.Fenced() || lock.Lost() != nil || lock.Verify(t.Context()) != nil
	if view := off.Look(key, "5"); heldUp || view != Free || off.Rank(key) != 0 {
		t.Errorf("a host that is alone is held up: %v", err)
	}
}

// TestForeignHolderIsNamed: who looks for the reason why nothing happens finds the item and the holder in the log,
// once.
func TestForeignHolderIsNamed(t *testing.T) {
	var log strings.Builder
	b, key := newBench(t, "here", func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }), newKey()
	newLock(t, key, "theirs")
	b.see(key)
	for range 3 {
		b.expectView("its holder is alive", key, "5", Elsewhere)
	}
	if n := strings.Count(log.String(), "holder=theirs"); n != 1 || !strings.Contains(log.String(), key.Item.String()) {
		t.Errorf("expected one line with the item %s and the holder, but found\n%s", key.Item, log.String())
	}
}
