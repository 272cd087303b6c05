package lock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func newMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	return meta
}

// cleaning is a Cleaner at work in a manager, with a clock that stands still and an election that a test decides.
type cleaning struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	elected atomic.Bool
	mgr     manager.Manager
}

// startCleaner starts a Cleaner beside watches that are running already, and ends it with the test.
func startCleaner(t *testing.T, elected bool) *cleaning {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(controlPlane.Config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &cleaning{t: t, clock: clocktesting.NewFakeClock(time.Now()), mgr: mgr}
	c.elected.Store(elected)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache has not started")
	}
	for _, object := range []client.Object{&v1alpha1.SyncObject{}, newMetadata()} {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil { // and blocks until it knows what there is
			t.Fatal(err)
		}
	}
	cleaner := &Cleaner{
		Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: mgr.GetClient(), NewMetadata: newMetadata,
		Elected: c.elected.Load, Clock: c.clock, Log: slog.New(slog.DiscardHandler),
	}
	go func() { ended <- cleaner.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	c.waitUntil("the Cleaner waits for its next turn", c.clock.HasWaiters)
	return c
}

// waitUntil polls for what has no event to wait for.
func (c *cleaning) waitUntil(what string, condition func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("it never comes to this: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// waitUntilGone lets time pass until a lock is gone.
func (c *cleaning) waitUntilGone(reason string, key Key) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	locks, err := admin.Watch(ctx, &v1alpha1.SyncObjectList{}, client.InNamespace(key.Item.Namespace))
	if err != nil {
		c.t.Fatal(err)
	}
	defer locks.Stop()
	for readLock(c.t, "", key) != nil {
		c.clock.Step(time.Second)
		select {
		case change := <-locks.ResultChan():
			if change.Type == watch.Deleted {
				continue
			}
		case <-time.After(20 * time.Millisecond): // another second
		}
		if ctx.Err() != nil {
			c.t.Fatalf("%s: the lock is still there", reason)
		}
	}
}

// seen waits until the Cleaner's cache has a lock.
func (c *cleaning) seen(keys ...Key) {
	c.t.Helper()
	for _, key := range keys {
		c.waitUntil("the cache has the lock", func() bool {
			return c.mgr.GetCache().Get(c.t.Context(), objectName("", key), &v1alpha1.SyncObject{}) == nil
		})
	}
}

func newItem(t *testing.T, namespace, name string) *v1alpha1.DeployItem {
	t.Helper()
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DeployItemSpec{Type: "test.pergola.dev/one"},
	}
	if err := admin.Create(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	return item
}

func deleteItem(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
}

func keyFor(item *v1alpha1.DeployItem) Key {
	return Key{Plugin: "one", Item: client.ObjectKeyFromObject(item), UID: item.UID}
}

// keyOfGone is the lock of an item that was never there, or is not any more.
func keyOfGone(namespace string) Key {
	return Key{Plugin: "one", Item: types.NamespacedName{Namespace: namespace, Name: "gone"}, UID: types.UID(uuid.NewString())}
}

func TestItemIsDeleted(t *testing.T) {
	c, namespace := startCleaner(t, true), newNamespace(t)
	item, stays := newItem(t, namespace, "item"), newItem(t, namespace, "stays")
	for _, i := range []*v1alpha1.DeployItem{item, stays} {
		newLock(t, keyFor(i), "there")
	}
	foreign := keyFor(item)
	foreign.Plugin = "x-two"
	newLock(t, foreign, "")
	c.seen(keyFor(item), keyFor(stays), foreign)
	deleteItem(t, item)
	next := newItem(t, namespace, "item")
	newLock(t, keyFor(next), "there")
	c.waitUntilGone("its item is gone", keyFor(item))
	c.waitUntilGone("it is one lock of several", foreign)
	expectHolder(t, "another item is gone", keyFor(stays), "there")
	expectHolder(t, "the item of the same name is another one", keyFor(next), "there")
}

// TestSweep: what was there before, and what nobody has told of.
func TestSweep(t *testing.T) {
	namespace := newNamespace(t)
	item := newItem(t, namespace, "item")
	before := keyFor(item)
	before.UID = "the-one-before"
	gone, prefixed, installation, byHand := keyOfGone(namespace), keyOfGone(namespace), keyOfGone(namespace), keyOfGone(namespace)
	prefixed.Plugin = "x-one"
	for _, key := range []Key{keyFor(item), before, gone, prefixed} {
		newLock(t, key, "there")
	}
	newLock(t, installation, "there", func(o *v1alpha1.SyncObject) { o.Spec.Kind = "Installation" })
	newLock(t, byHand, "there", func(o *v1alpha1.SyncObject) { o.Spec.Prefix = "else" })
	c := startCleaner(t, true)
	c.waitUntilGone("its item is gone", gone)
	c.waitUntilGone("its item is gone, whoever has made it", prefixed)
	c.waitUntilGone("the item of the name is another one", before)
	expectHolder(t, "its item is there", keyFor(item), "there")
	expectHolder(t, "it locks something else", installation, "there")
	expectHolder(t, "nobody knows what it locks", byHand, "there")
}

func TestElection(t *testing.T) {
	c, namespace := startCleaner(t, false), newNamespace(t)
	item := newItem(t, namespace, "item")
	newLock(t, keyFor(item), "there")
	never := keyOfGone(namespace)
	newLock(t, never, "there")
	c.seen(keyFor(item), never)
	deleteItem(t, item)
	c.waitUntil("the cache knows that the item is gone", func() bool {
		return c.mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(item), newMetadata()) != nil
	})
	c.clock.Step(2 * sweepInterval)
	expectHolder(t, "another replica cleans up", keyFor(item), "there")

	c.elected.Store(true)
	c.waitUntilGone("this replica was elected since", keyFor(item))
	c.waitUntilGone("this replica was elected since", never)

	late := keyOfGone(namespace)
	newLock(t, late, "there")
	c.seen(late)
	c.clock.Step(sweepInterval)
	c.waitUntilGone("it is found by the next sweep", late)
}

// TestItemThatTheCacheDoesNotKnow: the cache may be late, and is not trusted alone.
func TestItemThatTheCacheDoesNotKnow(t *testing.T) {
	c, namespace := startCleaner(t, false), newNamespace(t)
	item := newItem(t, namespace, "item")
	newLock(t, keyFor(item), "there")
	c.seen(keyFor(item))
	cleaner := &Cleaner{
		Cache: c.mgr.GetCache(), Live: admin, Client: admin, NewMetadata: newMetadata, Clock: c.clock, Log: slog.New(slog.DiscardHandler),
	}
	suspect := orphan{item: client.ObjectKeyFromObject(item), uid: item.UID, suspected: true}
	if err := cleaner.clean(t.Context(), suspect); err != nil {
		t.Error(err)
	}
	expectHolder(t, "its item is there", keyFor(item), "there")
	deleteItem(t, item)
	if err := cleaner.clean(t.Context(), suspect); err != nil || readLock(t, "", keyFor(item)) != nil {
		t.Errorf("expected the lock to go with its item, but found the error %v", err)
	}
}

// TestWatch: a Locker knows the locks that are there before it asks for one.
func TestWatch(t *testing.T) {
	c, key := startCleaner(t, false), newKey(t)
	newLock(t, key, "there")
	c.seen(key)
	informer, err := c.mgr.GetCache().GetInformer(t.Context(), &v1alpha1.SyncObject{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, "here")
	if err := b.Watch(t.Context(), informer); err != nil {
		t.Fatal(err)
	}
	b.expectView("it was there", key, "5", Elsewhere)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newBench(t, "here").Watch(ended, informer); err == nil {
		t.Error("expected an error when there is no time to wait")
	}
}
