package controller

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	finished = `{"jobID":"1","jobIDFinished":"1","phase":"Succeeded"}`
	newJob   = `{"jobID":"2","jobIDFinished":"1","phase":"Succeeded"}`
)

// TestArrivedItemsAreNotRead: an item that has arrived with work is not read when it is reconciled; one without work is
// not kept, nor read.
func TestArrivedItemsAreNotRead(t *testing.T) {
	asks := func(operation string) func(*v1alpha1.DeployItem) {
		return func(item *v1alpha1.DeployItem) { item.Annotations[v1alpha1.OperationAnnotation] = operation }
	}
	for name, tc := range map[string]struct {
		status string
		modify func(*v1alpha1.DeployItem)
		kept   bool
	}{
		"finished":                      {status: finished},
		"never set":                     {},
		"new job":                       {status: newJob, kept: true},
		"operation":                     {status: finished, modify: asks(v1alpha1.OperationReconcile), kept: true},
		"unknown operation, for events": {status: finished, modify: asks("dance"), kept: true},
		"schedule, for hooks":           {status: finished, modify: func(i *v1alpha1.DeployItem) { scheduled(i) }, kept: true},
		"type that no plugin serves": {
			status: newJob, modify: func(i *v1alpha1.DeployItem) { i.Spec.Type = "test.pergola.dev/foreign" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds)
			c := &Controller{contents: b.contents, plugins: b.plugins, clock: b.clock}
			item := b.newItemAs(b.item.Namespace, "arrived", tc.status, func(item *v1alpha1.DeployItem) {
				if tc.modify != nil {
					tc.modify(item)
				}
			})
			c.arrived(b.api.read(item))
			if _, kept := b.contents.items[keyOf(item)]; kept != tc.kept {
				t.Errorf("kept: %t", kept)
			}
			reads := 0
			b.items = itemclient.New(b.written, interceptor.NewClient(b.admin, interceptor.Funcs{
				Get: func(
					ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
				) error {
					reads++
					return c.Get(ctx, key, obj, opts...)
				},
			}))
			if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(item)}); err != nil || reads != 0 {
				t.Errorf("expected no read, but found %d, %v", reads, err)
			}
		})
	}
}

// TestContents: the newest version is kept, as far as there is room, and handed over once.
func TestContents(t *testing.T) {
	c := newContents()
	for _, version := range []string{"5", "4"} {
		c.put(itemAt("a", version), false)
	}
	for _, tc := range []struct {
		reason  string
		uid     types.UID
		version string
		ok      bool
	}{
		{"another item of the name", "b", "5", false},
		{"the cache has a newer version", "a", "6", false},
		{"it is the newest", "a", "5", true},
		{"it is handed over", "a", "5", false},
	} {
		if _, ok := c.take(itemKey, tc.uid, tc.version); ok != tc.ok {
			t.Errorf("%s: found %t", tc.reason, ok)
		}
	}
	c.put(itemAt("a", "5"), false)
	c.put(itemAt("a", "5"), true)
	if found, _ := c.take(itemKey, "a", "5"); !found.own {
		t.Error("expected the item as it was written here")
	}
	large := scheduled(itemAt("a", "5"))
	large.Spec.Config.Raw = []byte(strings.Repeat("x", maxContents))
	c.put(large, false)
	if _, ok := c.take(itemKey, "a", "5"); ok || c.size != 0 {
		t.Errorf("expected no room, but found %t, and %d bytes", ok, c.size)
	}
}

// TestArrivesWhileItIsRead: the job of an item of which another version arrives during the read goes on with its lock,
// and what arrives later is looked at although the job is not due.
func TestArrivesWhileItIsRead(t *testing.T) {
	b := newBench(t, always(waits("a Pod")))
	b.setJob()
	b.items = itemclient.New(b.written, interceptor.NewClient(b.admin, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
		) error {
			err := c.Get(ctx, key, obj, opts...)
			if item, ok := obj.(*v1alpha1.DeployItem); ok && err == nil {
				b.contents.put(item.DeepCopy(), false)
			}
			return err
		},
	}))
	b.reconcile(t.Context())
	if _, _, kept := b.memory.lockState(client.ObjectKeyFromObject(b.item)); !kept {
		t.Error("the lock of the job is released")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	b.contents.put(b.read(), false)
	if b.reconcile(t.Context()); b.read().Annotations[v1alpha1.OperationAnnotation] != "" {
		t.Error("the abort is left for later")
	}
}
