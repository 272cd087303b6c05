package tenure

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

var (
	noon       = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	errRefused = errors.New("refused")
	deployer   = v1alpha1.DeployerInformation{Identity: "here", Name: "one"}
)

// replica is the membership, and the listener, of a replica without any others.
type replica struct{ lock.Membership }

func (replica) PodName() string { return "here" }
func (replica) Process() string { return "here/1" }
func (replica) Valid() bool     { return true }
func (replica) Alone() bool     { return false }
func (replica) Freed(lock.Key)  {}
func (replica) Lost(lock.Key)   {}

func (replica) SeemsDead(string, string) bool { return false }

// bench is a tenure of an item with a job under way, and with its lock.
type bench struct {
	*Tenure
	t      *testing.T
	admin  client.WithWatch
	locker *lock.Locker
	key    lock.Key
	// refused: no lock can be read.
	refused bool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	admin, err := testenv.FakeClient()
	b := &bench{t: t, admin: admin}
	b.must(err)
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", UID: "uid"}}
	item.Spec.Type = "test.pergola.dev/one"
	b.must(admin.Create(t.Context(), item))
	item.Status.JobID = "a"
	contract.Begin(item, false, deployer, noon)
	contract.Progress(item)
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"S"}`)}
	b.must(admin.Status().Update(t.Context(), item))

	items := itemclient.New(admin, admin)
	item, err = items.Read(t.Context(), client.ObjectKeyFromObject(item))
	b.must(err)
	now, unknown := func() time.Time { return noon }, func(*v1alpha1.DeployItem) {}
	b.Tenure = New(items, item, contract.Decide(item, noon), now, unknown)
	locks := interceptor.NewClient(admin, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
		key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
		if b.refused {
			return errRefused
		}
		return c.Get(ctx, key, object, opts...)
	}})
	b.locker = lock.New(lock.Options{API: locks, Replicas: replica{}, Listener: replica{}, Metrics: lock.NewMetrics(),
		Log: slog.New(slog.DiscardHandler)})
	b.key = lock.Key{Plugin: "one", Item: client.ObjectKeyFromObject(item), UID: item.UID}
	b.Lock, err = b.locker.Acquire(t.Context(), b.key)
	b.must(err)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read() *v1alpha1.DeployItem {
	b.t.Helper()
	item := &v1alpha1.DeployItem{}
	b.must(b.admin.Get(b.t.Context(), b.key.Item, item))
	return item
}

// takeOver gives the lock to another replica.
func (b *bench) takeOver() *v1alpha1.SyncObject {
	b.t.Helper()
	locks := &v1alpha1.SyncObjectList{}
	b.must(b.admin.List(b.t.Context(), locks))
	object := &locks.Items[0]
	object.Spec.PodName, object.Annotations[lock.AnnotationProcess] = "there", "there/1"
	b.must(b.admin.Update(b.t.Context(), object))
	return object
}

func (b *bench) label() {
	b.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	b.must(b.admin.Patch(b.t.Context(), b.read(), patch))
}

func (b *bench) writeStatus(change Change) {
	b.t.Helper()
	item := b.read()
	change(item)
	b.must(b.admin.Status().Update(b.t.Context(), item))
}

// deploy changes the provider status.
func (b *bench) deploy() {
	b.t.Helper()
	b.writeStatus(func(item *v1alpha1.DeployItem) {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Other"}`)}
	})
}

// TestNothingIsWrittenWithoutTheLock: a write meets a conflict after any write by another client. It is repeated while
// the lock is held and the job is the same, and never after the loss of the lock.
func TestNothingIsWrittenWithoutTheLock(t *testing.T) {
	note := func(item *v1alpha1.DeployItem) { item.Status.ObservedGeneration = 7 }
	writes := map[string]func(*bench) error{
		"Write":        func(b *bench) error { return b.Write(t.Context(), note) },
		"Save":         func(b *bench) error { return b.Save(t.Context(), note) },
		"Save nothing": func(b *bench) error { return b.Save(t.Context(), func(*v1alpha1.DeployItem) {}) },
		"Keep":         func(b *bench) error { return b.Keep(t.Context(), note) },
		"finalizer": func(b *bench) error {
			if err := b.AddFinalizer(t.Context()); err != nil {
				return err
			}
			return b.RemoveFinalizer(t.Context())
		},
	}
	for name, tc := range map[string]struct {
		happen func(*bench)
		want   error
		// keeps: Keep writes nevertheless.
		keeps bool
	}{
		"held":                     {happen: func(*bench) {}},
		"held, other write":        {happen: func(b *bench) { b.label() }},
		"held, next job":           {happen: otherJob, want: itemclient.ErrOutdated, keeps: true},
		"held, next job picked up": {happen: otherJobPickedUp, want: itemclient.ErrOutdated, keeps: true},
		"held, other resources":    {happen: func(b *bench) { b.deploy() }, want: itemclient.ErrOutdated},
		"held, item gone": {want: itemclient.ErrOutdated, happen: func(b *bench) {
			b.must(b.admin.Delete(b.t.Context(), b.read()))
		}},
		"lost": {want: itemclient.ErrOutdated, happen: func(b *bench) { b.locker.Seen(b.takeOver()) }},
		// Rule (architecture.md#why-they-are-safe): A replica without its lock writes nothing once the next holder has
		// written.
		"lost unseen, other write": {want: itemclient.ErrOutdated, happen: func(b *bench) {
			b.takeOver()
			b.label()
		}},
		"unknown, other write": {want: errRefused, happen: func(b *bench) {
			b.refused = true
			b.label()
		}},
	} {
		for kind, write := range writes {
			t.Run(name+"/"+kind, func(t *testing.T) {
				b := newBench(t)
				tc.happen(b)
				version := versionOf(b)
				want := tc.want
				if tc.keeps && kind == "Keep" {
					want = nil
				}
				if err := write(b); !errors.Is(err, want) {
					t.Errorf("expected %v, but found %v", want, err)
				}
				if written := versionOf(b) != version; written != (want == nil && kind != "Save nothing") {
					t.Errorf("written: %t", written)
				}
				if want == nil && b.View().ResourceVersion != versionOf(b) {
					t.Error("the known item is outdated")
				}
			})
		}
	}
}

func otherJob(b *bench) {
	b.writeStatus(func(item *v1alpha1.DeployItem) { item.Status.JobID = "b" })
}

// otherJobPickedUp is otherJob with the same deployer, in the same second: only the ID of the job differs.
func otherJobPickedUp(b *bench) {
	b.writeStatus(func(item *v1alpha1.DeployItem) {
		item.Status.JobID = "b"
		contract.Begin(item, false, deployer, noon)
		contract.Progress(item)
	})
}

// versionOf returns the version of the item; empty without one.
func versionOf(b *bench) string {
	b.t.Helper()
	item := &v1alpha1.DeployItem{}
	b.must(client.IgnoreNotFound(b.admin.Get(b.t.Context(), b.key.Item, item)))
	return item.ResourceVersion
}

// TestLockIsVerifiedAfterARead: a lock verified before the read of the item could be lost in between, to a holder with
// the first write behind it.
func TestLockIsVerifiedAfterARead(t *testing.T) {
	b := newBench(t)
	reader := interceptor.NewClient(b.admin, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
		key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
		b.takeOver()
		return c.Get(ctx, key, object, opts...)
	}})
	b.client = itemclient.New(b.admin, reader)
	b.label()
	version := versionOf(b)
	err := b.Write(t.Context(), func(item *v1alpha1.DeployItem) { item.Status.ObservedGeneration = 7 })
	if !errors.Is(err, itemclient.ErrOutdated) || versionOf(b) != version {
		t.Errorf("expected a write without the lock to fail, but found %v", err)
	}
}

// TestPickUpIsDoneOnce: a pick-up comes with the next write and fences the lock. After a conflict it is not repeated:
// another replica may have been faster.
func TestPickUpIsDoneOnce(t *testing.T) {
	for name, conflict := range map[string]bool{"first": false, "after another write": true} {
		t.Run(name, func(t *testing.T) {
			b, done := newBench(t), 0
			b.PickUpWith(&PickUp{
				Begin: func(item *v1alpha1.DeployItem) { item.Status.Phase = v1alpha1.DeployItemPhaseInit },
				Done:  func(context.Context, *v1alpha1.DeployItem) { done++ },
			})
			const begun = v1alpha1.DeployItemPhaseInit
			if b.View().Status.Phase != begun || b.read().Status.Phase == begun {
				t.Error("expected the pick-up in the view alone")
			}
			if conflict {
				b.label()
			}
			for range 2 {
				err := b.Write(t.Context(), func(item *v1alpha1.DeployItem) { item.Status.ObservedGeneration++ })
				if errors.Is(err, itemclient.ErrOutdated) != conflict || !conflict && err != nil {
					t.Errorf("unexpected error: %v", err)
				}
			}
			pickedUp := b.read().Status.Phase == begun
			if b.IsPending() != conflict || pickedUp == conflict || b.Lock.Fenced() == conflict || (done == 1) == conflict {
				t.Errorf("pending %t, written %t, fenced %t, done %d times", b.IsPending(), pickedUp, b.Lock.Fenced(), done)
			}
		})
	}
}

// TestPendingPickUpOfAnotherSpec: a pick-up that is still to be written, in the second of the one before, is for the
// spec that the plugin has got.
func TestPendingPickUpOfAnotherSpec(t *testing.T) {
	isOld := func(context.Context, *v1alpha1.DeployItem) bool { return false }
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DeployItem)
		want   error
	}{
		"same spec":    {func(item *v1alpha1.DeployItem) { item.Labels = map[string]string{"a": "b"} }, nil},
		"another spec": {func(item *v1alpha1.DeployItem) { item.Spec.Timeout = "1m" }, itemclient.ErrOutdated},
	} {
		b := newBench(t)
		b.PickUpWith(&PickUp{Begin: func(*v1alpha1.DeployItem) {}})
		item := b.read()
		tc.change(item)
		b.must(b.admin.Update(t.Context(), item))
		if err := b.Check(t.Context(), isOld); !errors.Is(err, tc.want) {
			t.Errorf("%s: expected %v, but found %v", name, tc.want, err)
		}
	}
}
