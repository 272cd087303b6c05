package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestLockRequests: a lock costs two requests per job, however many replicas there are, and nothing where there is no job.
func TestLockRequests(t *testing.T) {
	f := newFleet(t)
	f.start(3)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	untouched := counts.newItem("without-job", 0, 0, 0)
	create(t, untouched)
	var items []*v1alpha1.DeployItem
	for i := range 20 {
		items = append(items, counts.newItem(fmt.Sprintf("item-%02d", i), 20, 0, 0))
	}
	forEach(t, items, func(ctx context.Context, item *v1alpha1.DeployItem) error { return admin.Create(ctx, item) })
	for _, reason := range []string{"a first job creates a lock and gives it up", "a further job takes the lock and gives it up"} {
		mark := auditMark(t)
		for _, item := range items { // one by one: what an overloaded machine does is another question
			carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
		}
		f.checkLockRequests(mark, counts.namespace, len(items), reason)
	}
	counts.check(items...)
	if lock := readLock(t, untouched); lock != nil {
		t.Errorf("an item that never had a job has a lock: %+v", lock)
	}

	// Events on idle items cost nothing, and neither does a host that hears of them for the first time.
	mark := auditMark(t)
	f.stop(f.live[0])
	f.start(1)
	touchAll(t, append(items, untouched))
	witness := carryOut(t, counts.newItem("witness", 0, 0, 0), v1alpha1.DeployItemPhaseSucceeded)
	eventually(t, "the witness's lock to be given up", func(context.Context) (string, error) { return held(t, witness), nil })
	for _, r := range about(f.requestsOf(mark), "syncobjects", counts.namespace, "") {
		if r.ObjectRef.Name != lockName(witness) && !strings.Contains(string(r.ResponseObject), lockName(witness)) && r.ObjectRef.Name != "" {
			t.Errorf("a request about the lock of an idle item: %s %s", r.User.Username, r.request)
		}
	}
	if lock := readLock(t, untouched); lock != nil {
		t.Errorf("an item that never had a job has a lock: %+v", lock)
	}
}

// touchAll changes labels and annotations of all items, more than once.
func touchAll(t *testing.T, items []*v1alpha1.DeployItem) {
	t.Helper()
	for i := range 3 {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"},"annotations":{"touched":"%d"}}}`, i, i)
		forEach(t, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
			return admin.Patch(ctx, item, client.RawPatch(types.MergePatchType, patch))
		})
	}
}

// held says who holds the lock of an item; "" if nobody does.
func held(t *testing.T, item *v1alpha1.DeployItem) string {
	t.Helper()
	if lock := readLock(t, item); lock == nil || lock.Spec.PodName != "" {
		return fmt.Sprintf("lock %+v", lock)
	}
	return ""
}

// checkLockRequests: each job takes the lock and gives it up. That a replica loses patience with the one that comes first for an item, and
// tries in vain, is the exception, even where the machine is slow.
func (f *fleet) checkLockRequests(mark int64, namespace string, jobs int, reason string) {
	f.t.Helper()
	var requests []*replicaRequest
	eventually(f.t, "all locks to be given up", func(ctx context.Context) (string, error) {
		locks := &v1alpha1.SyncObjectList{}
		if err := admin.List(ctx, locks, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for _, lock := range locks.Items {
			if lock.Spec.PodName != "" {
				return fmt.Sprintf("%s holds %s", lock.Spec.PodName, lock.Name), nil
			}
		}
		return "", nil
	})
	requests = about(f.requestsOf(mark), "syncobjects", namespace, "")
	refused := 0
	for _, r := range requests {
		if !r.succeeded() {
			refused++
		}
	}
	f.t.Logf("%d jobs, %d requests about locks, %d of them refused", jobs, len(requests), refused)
	if done := len(requests) - refused; done != 2*jobs {
		f.t.Errorf("%s: expected %d requests, but found %d:\n%s", reason, 2*jobs, done, listReplicaRequests(requests))
	}
	if refused > jobs/10 {
		f.t.Errorf("%s: %d requests about locks were refused:\n%s", reason, refused, listReplicaRequests(requests))
	}
}
