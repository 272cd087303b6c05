package standalone

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// countReads counts from now on how often the item is read.
func (b *bench) countReads() *int {
	reads := 0
	b.live = onGet(b.admin, func(client.ObjectKey) { reads++ })
	return &reads
}

// onGet is a client that calls a function before it reads.
func onGet(c client.WithWatch, do func(client.ObjectKey)) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
		) error {
			do(key)
			return c.Get(ctx, key, obj, opts...)
		},
	})
}

// TestReads: an item that needs nothing is not read again until it has changed, and only then.
func TestReads(t *testing.T) {
	finish := func(b *bench) {
		b.reconcile()
		b.pickUp()
		b.finish()
	}
	unserve := func(b *bench) { b.serves = func(v1alpha1.DeployItemType) bool { return false } }
	serve := func(b *bench) { b.serves = func(v1alpha1.DeployItemType) bool { return true } }
	electLater := func(change func(*bench)) func(*bench) {
		return func(b *bench) {
			b.options.Elected = func(v1alpha1.DeployItemType) bool { return false }
			change(b)
			b.reconcile()
			b.options.Elected = func(v1alpha1.DeployItemType) bool { return true }
		}
	}
	nothing := func(*bench) {}
	cases := map[string]struct {
		reason  string
		prepare func(*bench) // what was there before
		between func(*bench) // what happens after a reconcile
		read    bool         // by the next reconcile
	}{
		"idle":    {"nothing has changed", finish, nothing, false},
		"new job": {"its timeout is to be watched", nothing, nothing, true},
		"running": {"its timeout is to be watched", func(b *bench) { b.reconcile(); b.pickUp() }, nothing, true},
		"label": {
			"the cache does not say what has changed", finish,
			func(b *bench) { b.patch(`{"metadata":{"labels":{"a":"b"}}}`) }, true,
		},
		"another's job": {
			"it may have a timeout", finish, func(b *bench) { b.patchStatus(`{"jobID":"theirs"}`) }, true,
		},
		"recreated":          {"it is another item", finish, (*bench).recreate, true},
		"not served":         {"no business of ours", unserve, nothing, false},
		"served later":       {"it needs a job", unserve, serve, true},
		"served no more":     {"it is idle", finish, unserve, false},
		"idle, served later": {"it needs nothing", func(b *bench) { finish(b); unserve(b) }, serve, false},
		"without annotations, served later": {
			"they are missing", func(b *bench) {
				finish(b)
				b.patch(`{"metadata":{"annotations":null}}`)
				unserve(b)
			}, serve, true,
		},
		"elected later": {"what was seen before is still true", finish, electLater(nothing), false},
		"changed, elected later": {
			"it needs a job", finish, electLater(func(b *bench) { b.patch(`{"spec":{"timeout":"1m"}}`) }), true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.prepare(b)
			b.reconcile()
			tc.between(b)
			reads := b.countReads()
			b.reconcile()
			if read := *reads > 0; read != tc.read {
				t.Errorf("%s: expected read=%t, but found %d reads", tc.reason, tc.read, *reads)
			}
		})
	}
}

// recreate replaces the item by another one of the same name.
func (b *bench) recreate() {
	b.t.Helper()
	if err := b.admin.Delete(b.t.Context(), b.item.DeepCopy()); err != nil {
		b.t.Fatal(err)
	}
	fresh := &v1alpha1.DeployItem{Spec: b.item.Spec}
	fresh.Namespace, fresh.Name = b.item.Namespace, b.item.Name
	if err := b.admin.Create(b.t.Context(), fresh); err != nil {
		b.t.Fatal(err)
	}
}

// TestStart: what was there at the start waits until all is listed, and what was listed needs no read.
func TestStart(t *testing.T) {
	for name, listed := range map[string]bool{"listed": true, "not listed": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile()
			b.pickUp()
			b.finish()
			b.memory = newMemory()
			b.held.Store(true)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			there := newMetadata()
			there.ObjectMeta = b.read().ObjectMeta
			created := event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: there, IsInInitialList: true}
			b.changes().Create(t.Context(), created, q)
			b.signals().Generic(t.Context(), event.TypedGenericEvent[struct{}]{}, q)
			if q.Len() != 0 {
				t.Error("an item that was there has not waited")
			}
			if listed {
				b.Listed(b.read())
			}
			b.AllListed()
			b.ReplicasChanged() // one signal is enough
			b.signals().Generic(t.Context(), <-b.wake, q)
			if q.Len() != 1 {
				t.Errorf("all is listed, but %d items are in the queue", q.Len())
			}
			reads := b.countReads()
			if b.reconcile(); (*reads == 0) != listed {
				t.Errorf("an item that needs nothing was read %d times", *reads)
			}
		})
	}
}

// TestGone: an item that is gone is no error, and is forgotten, whoever hears of it first.
func TestGone(t *testing.T) {
	remove := func(b *bench) error { return client.IgnoreNotFound(b.admin.Delete(t.Context(), b.item.DeepCopy())) }
	for name, tc := range map[string]func(b *bench) error{
		"between read and write": func(b *bench) error {
			b.write = func(_ string, do func() error) error { return errors.Join(remove(b), do()) }
			_, err := b.tryReconcile()
			_, again := b.tryReconcile()
			return errors.Join(err, again)
		},
		"deletion heard of": func(b *bench) error {
			there := newMetadata()
			there.ObjectMeta = b.reconcile().ObjectMeta
			b.changes().Delete(t.Context(), event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{Object: there}, nil)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := tc(b); err != nil || len(b.memory.items) != 0 {
				t.Errorf("expected nothing to be remembered, but found %v, %v", b.memory.items, err)
			}
		})
	}
}
