package e2e

import (
	"context"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// deleteItem deletes an item as a Landscaper does, with a job, and waits until it is gone.
func deleteItem(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitItemGone(t, item)
}

func waitItemGone(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	eventually(t, "item "+item.Name+" to be gone", func(ctx context.Context) (string, error) {
		fresh := &v1alpha1.DeployItem{}
		err := admin.Get(ctx, client.ObjectKeyFromObject(item), fresh)
		if apierrors.IsNotFound(err) || err == nil && fresh.UID != item.UID {
			return "", nil
		}
		return describe(fresh), err
	})
}

// waitLockGone waits until the lock of an item that is gone is deleted.
func waitLockGone(t *testing.T, gone *v1alpha1.DeployItem) {
	t.Helper()
	eventually(t, "the lock of the deleted item "+gone.Name+" to be deleted", func(context.Context) (string, error) {
		if lock := readLock(t, gone); lock != nil {
			return "it is there", nil
		}
		return "", nil
	})
}

// TestSyncObjectCleanup: a lock goes when its item has gone, and no other lock does.
func TestSyncObjectCleanup(t *testing.T) {
	f := newFleet(t)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	// Left from before a host was there: the lock of an item, and that of an Installation, which is none of Pergola's kinds.
	left := counts.newItem("left", 0, 0, 0)
	left.UID = types.UID(uuid.NewString())
	create(t, newLock(left, ""))
	installation := newLock(left, "")
	installation.Name, installation.Spec.Kind, installation.Spec.Prefix = "landscaper-"+uuid.NewString(), "Installation", "landscaper"
	create(t, installation)
	f.start(2)
	waitLockGone(t, left)

	item := func(name string) *v1alpha1.DeployItem {
		return carryOut(t, counts.newItem(name, 0, 0, 0), v1alpha1.DeployItemPhaseSucceeded)
	}
	stays, goes, before := item("stays"), item("goes"), item("recreated")
	deleteItem(t, goes)
	deleteItem(t, before)
	recreated, witness := item("recreated"), item("witness")
	deleteItem(t, witness) // whose lock goes after the others

	for _, gone := range []*v1alpha1.DeployItem{goes, before, witness} {
		waitLockGone(t, gone)
	}
	for _, item := range []*v1alpha1.DeployItem{stays, recreated} {
		if readLock(t, item) == nil {
			t.Errorf("the lock of item %s, which is there, was deleted", item.Name)
		}
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(installation), installation); err != nil {
		t.Errorf("the lock of an object of another kind: %v", err)
	}
	counts.check(stays, recreated)
}

// TestTerminatingNamespace: nothing can be created in a namespace that is being deleted, not even a lock; but what was deployed from
// there can still be deleted.
func TestTerminatingNamespace(t *testing.T) {
	f := newFleet(t)
	f.start(2)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	item := counts.newItem("item", 0, 0, 0)
	item.Finalizers = []string{v1alpha1.Finalizer}
	create(t, item)
	// There is no namespace controller here, so that the namespace stays as long as we like.
	if err := admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: counts.namespace}}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), newLock(item, "")); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Fatalf("a lock can be created: the test means nothing: %v", err)
	}

	deleteItem(t, item)

	if begun := counts.begun(item); len(begun) != 1 || begun[0].Operation != "Delete" {
		t.Errorf("expected one call to delete what the item has deployed, but found %+v", begun)
	}
	counts.check(item)
}
