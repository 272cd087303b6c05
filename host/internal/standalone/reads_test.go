package standalone

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/itemcache"
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

// TestReads: an item is read only if it needs something by the cache; without a read nothing is written.
func TestReads(t *testing.T) {
	set := func(b *bench) { b.reconcile() }
	pickUp := func(b *bench) { b.reconcile(); b.pickUp() }
	finish := func(b *bench) { pickUp(b); b.finish() }
	for name, tc := range map[string]struct {
		prepare func(*bench)
		read    bool
	}{
		"new item":       {func(*bench) {}, true},
		"new job":        {set, false},
		"job under way":  {pickUp, false},
		"idle":           {finish, false},
		"label":          {func(b *bench) { finish(b); b.patch(`{"metadata":{"labels":{"a":"b"}}}`) }, false},
		"changed":        {func(b *bench) { finish(b); b.patch(`{"spec":{"timeout":"1m"}}`) }, true},
		"no annotations": {func(b *bench) { finish(b); b.patch(`{"metadata":{"annotations":null}}`) }, true},
		"not picked up":  {func(b *bench) { set(b); b.wait(allTimeouts.pickup()) }, true},
		"recreated":      {func(b *bench) { finish(b); b.recreate() }, true},
		"not served":     {func(b *bench) { b.serves = func(v1alpha1.DeployItemType) bool { return false } }, false},
		"not elected": {
			func(b *bench) { b.options.Elected = func(v1alpha1.DeployItemType) bool { return false } }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.prepare(b)
			reads := b.countReads()
			b.reconcile()
			if read := *reads > 0; read != tc.read {
				t.Errorf("expected read=%t, but found %d reads", tc.read, *reads)
			}
		})
	}
}

// TestQueue: only items that may need something come into the queue, at the start and whenever the replicas change.
func TestQueue(t *testing.T) {
	for name, idle := range map[string]bool{"idle": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if idle {
				b.reconcile()
				b.pickUp()
				b.finish()
			}
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			expect := func(when string) {
				t.Helper()
				if queued := q.Len() == 1; queued == idle {
					t.Errorf("%s: %d items are in the queue", when, q.Len())
				}
			}
			created := event.TypedCreateEvent[*v1alpha1.DeployItem]{Object: itemcache.Slim(b.read()), IsInInitialList: true}
			b.changes().Create(t.Context(), created, q)
			expect("at the start")
			if q.Len() > 0 {
				request, _ := q.Get()
				q.Done(request)
			}
			b.ReplicasChanged()
			b.ReplicasChanged() // one signal is enough
			b.signals().Generic(t.Context(), <-b.wake, q)
			expect("after a change of the replicas")
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
			gone := event.TypedDeleteEvent[*v1alpha1.DeployItem]{Object: b.reconcile()}
			b.changes().Delete(t.Context(), gone, nil)
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
