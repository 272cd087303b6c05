package watch

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

func TestWakeUps(t *testing.T) {
	t.Parallel()
	const labelled, named = "configmaps", "configmaps o"
	touch := func(w *world) { w.touch(configMaps, "o") }
	remove := func(w *world) { w.Delete(configMaps.Resource, "o") }
	replace := func(w *world) { remove(w); w.create(configMaps, "o", labels) }
	unlabel := func(w *world) { w.Patch(configMaps.Resource, "o", `{"metadata":{"labels":null}}`) }
	create := func(w *world) { w.create(configMaps, "o", nil) }
	for name, c := range map[string]struct {
		// created tells that the object exists when it is seen.
		created bool
		labels  map[string]string
		change  func(*world)
		stream  string // that tells about the object
	}{
		"changed":             {true, labels, touch, labelled},
		"deleted":             {true, labels, remove, labelled},
		"replaced":            {true, labels, replace, labelled},
		"loses label":         {true, labels, unlabel, labelled}, // by another client
		"created":             {false, nil, create, named},       // by others, without a label
		"unlabelled, changed": {true, nil, touch, named},         // as a custom check may look at objects of others
		"unlabelled, deleted": {true, nil, remove, named},        // and so may an export
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("before the watch", func(t *testing.T) {
				w := newWorld(t)
				seen := prepare(w, c.created, c.labels)
				c.change(w)
				w.follow("item", seen)
				w.run()
				w.mustWake("item")
			})
			t.Run("while watching", func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				seen := prepare(w, c.created, c.labels)
				w.run()
				w.follow("item", seen)
				w.waitForSync(1)
				w.mustStream(c.stream)
				w.mustNotHaveWoken()
				c.change(w)
				w.mustWake("item")
			})
			t.Run("between the call and Follow", func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				seen := prepare(w, c.created, c.labels)
				w.run()
				w.follow("other", seen)
				w.waitForSync(1)
				c.change(w)
				w.mustWake("other")
				w.follow("item", seen)
				w.mustWake("item")
			})
		})
	}
}

// prepare returns the object "o" as it was seen.
func prepare(w *world, created bool, labels map[string]string) Seen {
	if !created {
		return w.absent(configMaps, "o")
	}
	w.create(configMaps, "o", labels)
	return w.seen(configMaps, "o")
}

func TestClusterScopedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Patch(namespaces.Resource, w.Namespace, `{"metadata":{"labels":{"pergola.dev/deployitem":"x"}}}`)
	w.run()
	w.follow("item", w.seen(namespaces, w.Namespace))
	w.waitForSync(1)
	w.touch(namespaces, w.Namespace)
	w.mustWake("item")
}

func TestSharedWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run()
	const items = 20
	for i := range items {
		name := fmt.Sprintf("o%d", i)
		w.create(configMaps, name, labels)
		w.create(secrets, name, labels)
		w.follow("item"+name, w.seen(configMaps, name), w.seen(secrets, name))
	}
	w.waitForSync(2)
	w.mustNotHaveWoken()
	for i := range items {
		w.touch([]target.Mapping{configMaps, secrets}[i%2], fmt.Sprintf("o%d", i))
		w.mustWake(fmt.Sprintf("itemo%d", i))
	}
	if watches, all := w.counts(); watches > 2 || all > 4 {
		t.Errorf("expected two watches for %d objects, but found %d and %d requests altogether", 2*items, watches, all)
	}
	w.mustNotHaveWoken()
}

func TestNoWakeUpWithoutFollow(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, withClock(clock))
	w.create(configMaps, "busy", labels)
	w.create(configMaps, "last", labels)
	w.run()
	w.follow("item", w.seen(configMaps, "busy"))
	w.follow("witness", w.seen(configMaps, "last"))
	w.waitForSync(1)
	for range 100 {
		w.touch(configMaps, "busy")
	}
	w.mustWake("item")
	w.touch(configMaps, "last")
	w.mustWake("witness")
	w.mustNotHaveWoken()
	w.follow("witness", w.seen(configMaps, "last"))
	w.touch(configMaps, "busy")
	w.touch(configMaps, "last")
	w.stepUntilWoken(clock, 2*DefaultPause)
	w.mustWake("witness")
	w.mustNotHaveWoken()

	// The change between what the item saw and its call of Follow is not lost.
	old := w.seen(configMaps, "busy")
	w.touch(configMaps, "busy")
	w.touch(configMaps, "last")
	w.follow("item", old)
	w.mustWake("item")
	w.follow("item", old) // again, so soon that it has to wait
	// An item that was not woken before need not wait, and no other comes before it.
	w.follow("fresh", w.seen(configMaps, "last"))
	w.touch(configMaps, "last")
	w.mustWake("fresh")
	w.mustNotHaveWoken()
	w.stepUntilWoken(clock, 100*time.Millisecond)
	w.mustWake("item")

	// Nothing is followed any more.
	w.follow("item")
	w.follow("witness", w.seen(configMaps, "last"))
	w.touch(configMaps, "busy")
	w.touch(configMaps, "last")
	w.stepUntilWoken(clock, time.Second)
	w.mustWake("witness")
	w.mustNotHaveWoken()
}

// stepUntilWoken lets the time pass that wake-ups may have to wait.
func (w *world) stepUntilWoken(clock *clocktesting.FakeClock, step time.Duration) {
	w.Helper()
	w.Eventually("a wake-up", func() bool {
		clock.Step(step)
		return len(w.wakeUps) > 0
	})
}

func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, withClock(clock), func(s *Set) { s.maxPerTarget = 2 })
	w.run()
	w.follow("item", w.absent(configMaps, "a"), w.absent(configMaps, "b"), w.absent(configMaps, "c"))
	w.waitForSync(2)
	w.mustStream("configmaps a", "configmaps b")
	w.follow("item", w.absent(configMaps, "c"))
	w.mustStream("configmaps a", "configmaps b")
	w.follow("item", w.absent(configMaps, "a"))
	clock.Step(grace - 1)
	w.waitForSync(2)
	w.Eventually("the end of unused streams", func() bool {
		clock.Step(time.Second)
		return cmp.Equal([]string{"configmaps a"}, w.streams())
	})
	w.follow("item", w.absent(configMaps, "a"), w.absent(configMaps, "c"))
	w.waitForSync(2)
	w.create(configMaps, "c", nil)
	w.stepUntilWoken(clock, time.Second)
	w.mustWake("item")
	if watches, _ := w.counts(); watches != 3 {
		t.Errorf("expected three watches altogether, but found %d", watches)
	}
}

func TestItemsThatDoNotComeBack(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, withClock(clock))
	w.run()
	w.follow("deleted", w.absent(configMaps, "a"))
	clock.Step(expiry - time.Second)
	w.follow("alive", w.absent(configMaps, "b"))
	w.Eventually("the deleted item to be forgotten", func() bool {
		clock.Step(time.Second)
		return cmp.Equal([]string{"configmaps b"}, w.streams())
	})
	w.Eventually("the other to be forgotten, too", func() bool {
		clock.Step(time.Minute)
		w.set.mu.Lock()
		defer w.set.mu.Unlock()
		return len(w.set.items) == 0 && len(w.set.streams) == 0 && len(w.set.perTarget) == 0
	})
}

func TestRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMaps, "o", labels)
	w.follow("item", w.seen(configMaps, "o"))
	stop := w.run()
	w.waitForSync(1)
	stop()
	w.touch(configMaps, "o")
	w.mustNotHaveWoken()
	w.run()
	w.mustWake("item")
}

func TestNamespaceDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMaps, "o", labels)
	w.create(secrets, "o", nil)
	w.run()
	w.follow("managed", w.seen(configMaps, "o"))
	w.waitForSync(1)
	w.Delete(namespaces.Resource, w.Namespace)
	// There is no controller; this is what it does.
	for _, m := range []target.Mapping{configMaps, secrets} {
		if err := w.Objects(m.Resource).DeleteCollection(
			t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	w.mustWake("managed")
	// It looks, and waits for the object to come back.
	w.follow("managed", w.absent(configMaps, "o"))
	w.Eventually(
		"the watch by name", func() bool { return cmp.Equal([]string{"configmaps", "configmaps o"}, w.streams()) },
	)
	w.waitForSync(2)
	w.mustNotHaveWoken()
}

// TestStreamThatIsBehind: an object that the stream does not have yet was just created, and is no change.
func TestStreamThatIsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := &stream{versions: map[string]string{}, latest: "7"}
	for _, c := range []struct {
		version string
		want    bool
	}{{"6", true}, {"7", true}, {"8", false}, {"", false}} {
		i := &item{}
		w.set.compare(&follow{item: i, stream: st, seen: Seen{ResourceVersion: c.version}})
		if _, woken := w.set.changed[i]; woken != c.want {
			t.Errorf("seen with the version %q: expected it to be gone: %t, but found %t", c.version, c.want, woken)
		}
	}
}

func TestNewer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason, version, seen string
		want                  bool
	}{
		{"the same", "9", "9", false},
		{"numbers, not texts", "10", "9", true},
		{"an API server that is behind", "9", "10", false},
		{"it did not exist", "9", "", true},
		{"no order, but different", "a", "b", true},
		{"no order, and the same", "a", "a", false},
	} {
		if got := newer(c.version, c.seen); got != c.want {
			t.Errorf("%s: expected %t, but found %t", c.reason, c.want, got)
		}
	}
}
