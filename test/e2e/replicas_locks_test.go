package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// newLock returns a lock as another implementation writes it.
func newLock(item *v1alpha1.DeployItem, podName string) *v1alpha1.SyncObject {
	lock := &v1alpha1.SyncObject{Spec: v1alpha1.SyncObjectSpec{
		PodName: podName, Kind: "DeployItem", Name: item.Name, Prefix: "counter", LastUpdateTime: v1alpha1.Now(),
	}}
	lock.Namespace, lock.Name = item.Namespace, lockName(item)
	return lock
}

// TestLocks: each job takes its item's SyncObject and gives it up, by two requests. What another implementation has
// locked stays untouched for as long as its pod is there. A SyncObject goes with its item.
func TestLocks(t *testing.T) {
	f := newFleet(t)
	f.start(2)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	witness := counts.newItem("witness", 0, 0, 0)
	create(t, witness)
	// seen returns when the replicas have seen what came before.
	seen := func() {
		t.Helper()
		carryOutAgain(t, witness, succeeded)
		eventually(t, "the lock to be given up", func(context.Context) (string, error) { return held(t, witness), nil })
	}
	mark := markAudit(t)
	for range 10 {
		seen()
	}
	f.checkLockRequests(mark, witness, 10)

	for name, release := range map[string]func(lock *v1alpha1.SyncObject) error{
		"given-up": func(lock *v1alpha1.SyncObject) error {
			return admin.Patch(t.Context(), lock, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"podName":""}}`)))
		},
		"dead": func(lock *v1alpha1.SyncObject) error {
			return admin.Delete(t.Context(), testenv.NewPod(f.namespace, lock.Spec.PodName), client.GracePeriodSeconds(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := counts.newItem(name, 0, 0, 0)
			create(t, item)
			create(t, testenv.NewPod(f.namespace, "theirs-"+name))
			lock := newLock(item, "theirs-"+name)
			create(t, lock)
			seen()
			mark := markAudit(t)
			jobID := setJob(t, item)
			before := read(t, item)
			seen()
			if requests := about(f.requestsOf(mark), "deployitems", item.Namespace, item.Name); len(requests) > 0 {
				t.Errorf("the item is held by another, but there were requests:\n%s", listReplicaRequests(requests))
			}
			if fresh := read(t, item); fresh.ResourceVersion != before.ResourceVersion {
				t.Errorf("the item is held by another and was written: %s", describe(fresh))
			}
			if err := release(lock); err != nil {
				t.Fatal(err)
			}
			if item = waitFinished(t, item, jobID); item.Status.Phase != succeeded {
				t.Errorf("expected the job to succeed, but found %s", describe(item))
			}
			deleteItem(t, item)
			eventually(t, "the lock of the deleted item to be deleted", func(context.Context) (string, error) {
				if lock := readLock(t, item); lock != nil {
					return "it is there", nil
				}
				return "", nil
			})
		})
	}
	if readLock(t, witness) == nil {
		t.Error("the lock of an item that is there was deleted")
	}
	counts.check()
}

// held says who holds the lock of an item; "" if nobody does.
func held(t *testing.T, item *v1alpha1.DeployItem) string {
	t.Helper()
	if lock := readLock(t, item); lock == nil || lock.Spec.PodName != "" {
		return fmt.Sprintf("lock %+v", lock)
	}
	return ""
}

// checkLockRequests checks that so many jobs of an item have cost two requests each. That a replica loses patience
// with the one that comes first for an item, and tries in vain, is not counted.
func (f *fleet) checkLockRequests(mark auditMark, item *v1alpha1.DeployItem, jobs int) {
	f.t.Helper()
	requests := about(f.requestsOf(mark), "syncobjects", item.Namespace, "")
	done := 0
	for _, r := range requests {
		if r.succeeded() {
			done++
		}
	}
	if done != 2*jobs {
		f.t.Errorf("expected %d requests about locks, but found %d:\n%s", 2*jobs, done, listReplicaRequests(requests))
	}
}
