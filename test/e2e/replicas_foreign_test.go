package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// newLock returns a lock as another implementation writes it.
func newLock(item *v1alpha1.DeployItem, podName string) *v1alpha1.SyncObject {
	return &v1alpha1.SyncObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: item.Namespace, Name: lockName(item)},
		Spec: v1alpha1.SyncObjectSpec{
			PodName: podName, Kind: "DeployItem", Name: item.Name, Prefix: "counter", LastUpdateTime: v1alpha1.Now(),
		},
	}
}

// foreign is a fleet of one beside another implementation that uses the same locks.
type foreign struct {
	*fleet
	counts *counts
	others int
}

// createHeld creates an item whose lock somebody holds. The replica has heard of both before it returns.
func (o *foreign) createHeld(name, podName string) *v1alpha1.DeployItem {
	o.t.Helper()
	item := o.counts.newItem(name, 0, 0, 0)
	create(o.t, item)
	create(o.t, newLock(item, podName))
	o.carryOutAnother()
	return item
}

// carryOutAnother carries out an item that nobody holds, which shows that the replica has seen what came before.
func (o *foreign) carryOutAnother() {
	o.t.Helper()
	o.others++
	carryOut(o.t, o.counts.newItem(fmt.Sprintf("other-%d", o.others), 0, 0, 0), v1alpha1.DeployItemPhaseSucceeded)
}

// TestForeignLock: what another implementation has locked stays untouched as long as its pod is there.
func TestForeignLock(t *testing.T) {
	o := &foreign{fleet: newFleet(t), counts: &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}}
	create(t, testenv.NewPod(o.namespace, "theirs"))
	create(t, testenv.NewPod(o.namespace, "dies"))
	o.start(1)

	tests := map[string]struct {
		reason, podName string
		// release ends the hold of the lock; nil if nobody has it in truth.
		release func(*v1alpha1.DeployItem)
	}{
		"Released": {
			reason:  "who gives up a lock has done its work, and whoever waits for it goes on at once",
			podName: "theirs",
			release: func(item *v1alpha1.DeployItem) {
				patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podName": "", "lastUpdateTime": v1alpha1.Now()}})
				if err != nil {
					t.Fatal(err)
				}
				if err := admin.Patch(t.Context(), newLock(item, ""), client.RawPatch(types.MergePatchType, patch)); err != nil {
					t.Fatal(err)
				}
			},
		},
		"HolderDeleted": {
			reason:  "a pod that is gone does nothing any more",
			podName: "dies",
			release: func(*v1alpha1.DeployItem) {
				if err := admin.Delete(t.Context(), testenv.NewPod(o.namespace, "dies"), client.GracePeriodSeconds(0)); err != nil {
					t.Fatal(err)
				}
			},
		},
		"HolderMissing": {
			reason:  "nobody has the lock whose pod does not exist",
			podName: "never-was",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			item := o.createHeld("item-"+fmt.Sprint(o.others), tc.podName)
			mark, since := auditMark(t), time.Now()
			jobID := setJob(t, item)
			before := read(t, item)
			if tc.release != nil {
				o.carryOutAnother()
				if requests := about(o.requestsOf(mark), "deployitems", item.Namespace, item.Name); len(requests) > 0 {
					t.Errorf("%s: the item is held by another, but there were requests:\n%s", tc.reason, listReplicaRequests(requests))
				}
				if fresh := read(t, item); fresh.ResourceVersion != before.ResourceVersion {
					t.Errorf("%s: the item is held by another and was written: %s", tc.reason, describe(fresh))
				}
				since = time.Now()
				tc.release(item)
			}
			if item = waitFinished(t, item, jobID); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Errorf("%s: expected the job to succeed, but found %s", tc.reason, describe(item))
			}
			t.Logf("finished %s after it could go on", time.Since(since).Round(time.Millisecond))
			if waited := time.Since(since); waited > 5*time.Second {
				t.Errorf("%s: the job was finished only after %s", tc.reason, waited)
			}
			eventually(t, "the lock to be given up", func(context.Context) (string, error) { return held(t, item), nil })
		})
	}
}
