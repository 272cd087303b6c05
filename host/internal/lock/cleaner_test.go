package lock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// newItem creates an item, and its lock, which the pod "there" holds. It returns the key of the lock.
func newItem(t *testing.T, namespace, name string) Key {
	t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID(uuid.NewString())}}
	if err := admin.Create(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	key := Key{Plugin: "one", Item: client.ObjectKeyFromObject(item), UID: item.UID}
	newLock(t, key, "there")
	return key
}

func deleteItem(t *testing.T, key Key) {
	t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: key.Item.Namespace, Name: key.Item.Name}}
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
}

func newCleaner(log io.Writer) *Cleaner {
	return &Cleaner{Cache: admin, Live: admin, Client: admin, Log: slog.New(slog.NewTextHandler(log, nil))}
}

// during runs a Cleaner during a function, and returns its error.
func during(t *testing.T, c *Cleaner, do func()) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	do()
	stop()
	return <-ended
}

// withoutItems is a cache that does not know of the items.
type withoutItems struct{ client.Reader }

func (c withoutItems) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	key.Name = "unknown"
	return c.Reader.Get(ctx, key, object, opts...)
}

// TestClean: the lock of an item that is gone is deleted, and no other one.
// Rule (architecture.md#locks): The lock of a deleted item is deleted; the lock of a new item of that name stays.
func TestClean(t *testing.T) {
	namespace := newKey().Item.Namespace
	stays, gone := newItem(t, namespace, "stays"), newItem(t, namespace, "gone")
	foreign, installation, byHand := gone, gone, gone
	foreign.Plugin, installation.Plugin, byHand.Plugin = "x-two", "installer", "else"
	newLock(t, foreign, "")
	newLock(t, installation, "there", func(o *v1alpha1.SyncObject) { o.Spec.Kind = "Installation" })
	newLock(t, byHand, "there", func(o *v1alpha1.SyncObject) { o.Spec.Prefix = "any" })
	deleteItem(t, gone)
	next := newItem(t, namespace, "gone")

	c := newCleaner(io.Discard)
	c.Cache = withoutItems{admin}
	if err := c.clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	for reason, key := range map[string]Key{"its item is gone": gone,
		"it is one lock of several, whoever has made it": foreign} {
		if readLock(t, key) != nil {
			t.Errorf("%s, but the lock is there", reason)
		}
	}
	expectHolder(t, "another item is gone, and the cache may be late", stays, "there")
	expectHolder(t, "the item of the same name is another one", next, "there")
	expectHolder(t, "it locks something else", installation, "there")
	expectHolder(t, "nobody knows what it locks", byHand, "there")
}

// TestCleanOnCondition: a lock that was written to since it was seen is left for the next time.
func TestCleanOnCondition(t *testing.T) {
	key := newKey()
	newLock(t, key, "")
	seen := readLock(t, key)
	writeLock(t, key, func(o *v1alpha1.SyncObject) { o.Spec.PodName = "there" })
	if err := newCleaner(io.Discard).cleanOne(t.Context(), seen); err != nil {
		t.Errorf("expected no word of it, but found %v", err)
	}
	expectHolder(t, "somebody has taken it", key, "there")
}

// noLocks is a cache that cannot be read.
type noLocks struct{ client.Reader }

func (noLocks) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no locks can be read")
}

// TestCleanFails: the log tells why the locks of items that are gone are still there.
func TestCleanFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCleaner(&log)
		c.Cache, c.Elected = noLocks{}, func() bool { return true }
		if err := during(t, c, synctest.Wait); err != nil || !strings.Contains(log.String(), "no locks can be read") {
			t.Errorf("Start returned %v, and the log says %q", err, log.String())
		}
	})
}

// TestElectedCleans: one of the replicas cleans up, again and again.
// Rule (architecture.md#locks): One replica cleans up locks.
func TestElectedCleans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elected := false
		c := newCleaner(io.Discard)
		c.Elected = func() bool { return elected }
		err := during(t, c, func() {
			for range 2 {
				key := newKey()
				newLock(t, key, "there")
				passTime(2 * cleanInterval)
				if (readLock(t, key) == nil) != elected {
					t.Errorf("elected: %t, but the lock is %v", elected, readLock(t, key))
				}
				elected = true
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}
