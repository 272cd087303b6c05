package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// replicaRequest is a request that was made by somebody with a name.
type replicaRequest struct {
	write
	User struct{ Username string }
}

// requestsOf are the requests of the fleet's replicas since a mark.
func (f *fleet) requestsOf(mark auditMark) (requests []*replicaRequest) {
	f.t.Helper()
	for _, r := range entriesSince[replicaRequest](f.t, mark) {
		if strings.HasPrefix(r.User.Username, f.namespace+"-") {
			requests = append(requests, r)
		}
	}
	return requests
}

// about keeps the requests about objects of a kind in a namespace, of any name if there is none. Watches are aside.
func about(requests []*replicaRequest, resource, namespace, name string) []*replicaRequest {
	return slices.DeleteFunc(slices.Clone(requests), func(r *replicaRequest) bool {
		o := r.ObjectRef
		return r.Verb == "watch" || o.Resource != resource || o.Namespace != namespace || name != "" && o.Name != name
	})
}

func listReplicaRequests(requests []*replicaRequest) string {
	var text strings.Builder
	for _, r := range requests {
		at := r.RequestReceivedTimestamp.UTC().Format("15:04:05.000000")
		fmt.Fprintf(&text, "  %s %s: %s\n", at, r.User.Username, r.request)
	}
	return text.String()
}

// writes tells whether the request is one that changes something.
func (r *replicaRequest) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb)
}

// useAuditedNamespace makes sure of the namespace whose writes are logged with their bodies, and returns its name.
func useAuditedNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testenv.AuditedNamespace}}
	if err := admin.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	defaults := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.DefaultContextName, Namespace: namespace.Name,
	}}
	if err := admin.Create(t.Context(), defaults); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return namespace.Name
}

// lockWrite is a change of a lock.
type lockWrite struct {
	version uint64
	// by whom it was made, and who holds the lock then; "" for nobody.
	by, holder string
}

// version of an object as a number. All objects of an API server count on one counter.
func version(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion: %v", err)
	}
	return number
}

// lockHistories are the changes of the locks, by their names, in the order in which the API server has carried them
// out.
func lockHistories(t *testing.T, requests []*replicaRequest) map[string][]lockWrite {
	t.Helper()
	locks := map[string][]lockWrite{}
	for _, r := range requests {
		if r.ObjectRef.Resource != "syncobjects" || !r.writes() || r.Verb == "delete" || !r.succeeded() {
			continue
		}
		lock := &v1alpha1.SyncObject{}
		if err := json.Unmarshal(r.ResponseObject, lock); err != nil || lock.Name == "" {
			t.Fatalf("decode SyncObject: %v: %s", err, r.ResponseObject)
		}
		locks[lock.Name] = append(locks[lock.Name], lockWrite{
			version: version(t, lock.ResourceVersion), by: r.User.Username, holder: lock.Spec.PodName,
		})
	}
	for _, history := range locks {
		slices.SortFunc(history, func(a, b lockWrite) int { return int(int64(a.version) - int64(b.version)) })
	}
	return locks
}

// holderAt is who held a lock at a version; "" for nobody.
func holderAt(history []lockWrite, version uint64) string {
	for _, w := range slices.Backward(history) {
		if w.version < version {
			return w.holder
		}
	}
	return ""
}

// checkLocks: nobody takes a lock in another's name, and nobody gives up one that another holds.
func checkLocks(t *testing.T, locks map[string][]lockWrite) {
	t.Helper()
	for name, history := range locks {
		for i, w := range history {
			if w.holder != "" && w.holder != w.by {
				t.Errorf("lock %s: %s gives it to %s", name, w.by, w.holder)
			}
			if w.holder == "" && (i == 0 || history[i-1].holder != w.by) {
				t.Errorf("lock %s: %s gives up what it does not hold: %+v", name, w.by, history)
			}
		}
	}
}

// checkFenced checks that each write of a replica to one of the items was made while it held the item's lock, and
// returns how many there were. Only the pick-up of a job that waits for a free worker is made without.
func checkFenced(t *testing.T, requests []*replicaRequest, locks map[string][]lockWrite) (checked int) {
	t.Helper()
	known := map[string]bool{} // a write that changes nothing makes no version, and is no write
	for _, r := range requests {
		if r.ObjectRef.Resource != "deployitems" || !r.writes() || !r.succeeded() {
			continue
		}
		item := &v1alpha1.DeployItem{}
		if err := json.Unmarshal(r.ResponseObject, item); err != nil || item.UID == "" {
			t.Fatalf("decode DeployItem: %v: %s", err, r.ResponseObject)
		}
		begins := item.Status.Phase == v1alpha1.DeployItemPhaseInit || item.Status.Phase == v1alpha1.DeployItemPhaseInitDelete
		if known[item.ResourceVersion] || r.toStatus() && begins && queued(item) {
			continue
		}
		known[item.ResourceVersion] = true
		checked++
		history := locks[lockName(item)]
		if holder := holderAt(history, version(t, item.ResourceVersion)); holder != r.User.Username {
			t.Errorf("%s writes item %s while its lock is held by %q:\n%s %s\nlock %+v",
				r.User.Username, item.Name, holder, state(item), r.RequestObject, history)
		}
	}
	return checked
}
