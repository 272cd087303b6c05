package standalone

import (
	"context"
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
	b.live = interceptor.NewClient(b.admin, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	return &reads
}

// TestReads: an item that needs nothing is not read again until it has changed, and only then.
func TestReads(t *testing.T) {
	finish := func(b *bench) {
		b.look()
		b.pickUp()
		b.finish()
	}
	nobody := func(v1alpha1.DeployItemType) bool { return false }
	cases := map[string]struct {
		reason  string
		prepare func(*bench) // what was there before
		between func(*bench) // what happens after a look
		read    bool         // by the next look
	}{
		"at rest":        {reason: "nothing has changed", prepare: finish},
		"new job":        {reason: "its timeout is to be watched", prepare: func(*bench) {}, read: true},
		"running":        {reason: "its timeout is to be watched", prepare: func(b *bench) { b.look(); b.pickUp() }, read: true},
		"label":          {reason: "the cache does not tell what has changed", prepare: finish, read: true, between: func(b *bench) { b.patch(`{"metadata":{"labels":{"a":"b"}}}`) }},
		"another's job":  {reason: "it may have a timeout", prepare: finish, read: true, between: func(b *bench) { b.patchStatus(`{"jobID":"theirs"}`) }},
		"recreated":      {reason: "it is another item", prepare: finish, read: true, between: (*bench).recreate},
		"not served":     {reason: "no business of ours", prepare: func(b *bench) { b.serves = nobody }},
		"served later":   {reason: "it needs a job", prepare: func(b *bench) { b.serves = nobody }, read: true, between: (*bench).serveAll},
		"served no more": {reason: "it is at rest", prepare: finish, between: func(b *bench) { b.serves = nobody }},
		"at rest, served later": {
			reason:  "an item at rest needs nothing from whoever serves it",
			prepare: func(b *bench) { finish(b); b.serves = nobody }, between: (*bench).serveAll,
		},
		"silent, served later": {
			reason: "it lacks its annotations", read: true, between: (*bench).serveAll,
			prepare: func(b *bench) {
				finish(b)
				b.patch(`{"metadata":{"annotations":null}}`)
				b.serves = nobody
			},
		},
		"elected later": {
			reason: "what was seen before is still true", prepare: finish,
			between: func(b *bench) {
				elected := false
				b.options.Elected = func(v1alpha1.DeployItemType) bool { return elected }
				b.look()
				elected = true
			},
		},
		"changed, elected later": {
			reason: "it needs a job", prepare: finish, read: true,
			between: func(b *bench) {
				elected := false
				b.options.Elected = func(v1alpha1.DeployItemType) bool { return elected }
				b.patch(`{"spec":{"timeout":"1m"}}`)
				b.look()
				elected = true
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.prepare(b)
			b.look()
			if tc.between != nil {
				tc.between(b)
			}
			reads := b.countReads()
			b.look()
			if read := *reads > 0; read != tc.read {
				t.Errorf("%s: expected read=%t, but found %d reads", tc.reason, tc.read, *reads)
			}
		})
	}
}

func (b *bench) serveAll() { b.serves = func(v1alpha1.DeployItemType) bool { return true } }

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

// TestStartWithASurvey: what was there at the start waits for the end of the survey, and what that has told needs no
// read.
func TestStartWithASurvey(t *testing.T) {
	for name, complete := range map[string]bool{"complete": true, "failed": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.look()
			b.pickUp()
			b.finish()
			b.memory = newMemory()
			b.held.Store(true)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			there := newMetadata()
			there.ObjectMeta = b.read().ObjectMeta
			b.changes().Create(t.Context(), event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: there, IsInInitialList: true}, q)
			b.signals().Generic(t.Context(), event.TypedGenericEvent[struct{}]{}, q)
			if q.Len() != 0 {
				t.Error("an item that was there has not waited for the survey")
			}
			if complete {
				if err := b.Surveyed(t.Context(), b.read()); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.SurveyEnded(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.ReplicasChanged() // one signal is enough
			b.signals().Generic(t.Context(), <-b.wake, q)
			if q.Len() != 1 {
				t.Errorf("the survey has ended, but %d items are in the queue", q.Len())
			}
			reads := b.countReads()
			if b.look(); (*reads == 0) != complete {
				t.Errorf("an item that needs nothing was read %d times", *reads)
			}
		})
	}
}

// TestListedAndGone: the deletion may have been heard of before the list tells of the item.
func TestListedAndGone(t *testing.T) {
	b := newBench(t)
	listed := b.read()
	if err := b.admin.Delete(t.Context(), b.item.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := b.judge(t.Context(), listed); err != nil || len(b.memory.items) != 0 {
		t.Errorf("an item that is gone is remembered: %v, %v", b.memory.items, err)
	}
}
