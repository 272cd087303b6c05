package controller

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/itemstate"
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
		"schedule, for hooks": {
			status: finished, kept: true, modify: func(i *v1alpha1.DeployItem) {
				i.Spec.Config = raw(`{"continuousReconcile":{"every":"1h"}}`)
			},
		},
		"type that no plugin serves": {
			status: newJob, modify: func(i *v1alpha1.DeployItem) { i.Spec.Type = "test.pergola.dev/foreign" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds)
			c := &Controller{contents: b.contents, plugins: b.plugins, rules: b.rules}
			item := newDeployItem(b.item.Namespace, "arrived")
			if tc.modify != nil {
				tc.modify(item)
			}
			b.create(item)
			if tc.status != "" {
				b.patchStatus(item, tc.status)
			}
			c.arrived(b.api.read(item))
			arrived, kept := b.contents.Take(client.ObjectKeyFromObject(item), item.UID, item.ResourceVersion)
			if kept != tc.kept {
				t.Errorf("kept: %t", kept)
			}
			if kept {
				b.contents.Put(arrived)
			}
			reads := 0
			b.onRead(func(_ client.Object, do func() error) error {
				reads++
				return do()
			})
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item)}
			if _, err := b.Reconcile(t.Context(), request); err != nil || reads != 0 {
				t.Errorf("expected no read, but found %d, %v", reads, err)
			}
		})
	}
}

// TestArrivesWhileItIsRead: the job of an item of which another version arrives during the read goes on with its lock,
// and what arrives later is looked at although the job is not due.
func TestArrivesWhileItIsRead(t *testing.T) {
	b := newBench(t, always(waits("a Pod")))
	b.setJob()
	b.onRead(func(obj client.Object, do func() error) error {
		err := do()
		if item, ok := obj.(*v1alpha1.DeployItem); ok && err == nil {
			b.contents.Put(itemstate.Content{Item: item.DeepCopy()})
		}
		return err
	})
	b.reconcile(t.Context())
	if !b.memory.Last(client.ObjectKeyFromObject(b.item)).KeepsLock() {
		t.Error("the lock of the job is released")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	b.contents.Put(itemstate.Content{Item: b.read()})
	if b.reconcile(t.Context()); b.read().Annotations[v1alpha1.OperationAnnotation] != "" {
		t.Error("the abort is left for later")
	}
}
