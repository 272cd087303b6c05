package container

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestTakeover: when a replica dies whose job is under way, another one goes on with the Pod that is there. With the next job that one dies.
func TestTakeover(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := emptyWorld(t)
	o, err := newHost(t.TempDir(), object{"timeouts": object{"lease": "5s"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.PodNamespace = hostNamespace
	holder := w.startReplica(o, "first")
	for _, c := range []struct {
		reason, next string
		podGone      bool
	}{
		{reason: "a Pod that is gone is dead", next: "second", podGone: true},
		{reason: "a Pod is still there when its node is lost, but its Lease expires", next: "third"},
	} {
		name := "until-" + c.next
		job := w.put(name, w.gated(name, "export", `{"a":1}`))
		w.awaitRunning(name, job)
		w.awaitHolder(name, holder)
		next := w.startReplica(o, c.next)

		w.kill(holder)
		if c.podGone {
			w.deletePod(holder)
		}

		w.awaitHolder(name, next)
		w.letGo(name)
		if exports := w.exports(w.finish(name, job, v1alpha1.DeployItemPhaseSucceeded)); exports["a"] != 1.0 {
			t.Errorf("%s: found exports %v", c.reason, exports)
		}
		uid := w.uid(name)
		w.mustHaveOnly(uid, "result", "state")
		w.remove(name)
		w.awaitGone(name)
		w.mustHaveRun(name, "RECONCILE", "DELETE")
		w.mustHaveNothing(uid)
		holder = next
	}
}

// startReplica starts a host that takes itself for a Pod, and waits until it is ready. At the end of the test it is stopped, and the Pod deleted.
func (w *world) startReplica(o testenv.HostOptions, podName string) *testenv.Replica {
	w.Helper()
	o.PodName = podName
	r, err := testenv.StartReplicaWith(w.Context(), admin, o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := r.DeletePod(context.WithoutCancel(w.Context())); err != nil && !apierrors.IsNotFound(err) {
			w.Error(err)
		}
	})
	w.stopAtEnd(r.Host)
	w.waitReady(r.Host)
	return r
}

// kill kills a replica with its plugins. Its Pod stays.
func (w *world) kill(r *testenv.Replica) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := r.Kill(ctx); err != nil {
		w.Fatal(err)
	}
}

func (w *world) deletePod(r *testenv.Replica) {
	w.Helper()
	if err := r.DeletePod(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// awaitHolder waits until a replica holds the lock of an item.
func (w *world) awaitHolder(name string, r *testenv.Replica) {
	w.Helper()
	key := client.ObjectKey{Namespace: w.namespace, Name: "container-" + w.uid(name)}
	w.eventually(fmt.Sprintf("Pod %s to hold the lock of deploy item %s", r.Pod.Name, name), func(ctx context.Context) (string, error) {
		lock := &v1alpha1.SyncObject{}
		if err := admin.Get(ctx, key, lock); err != nil || lock.Spec.PodName == r.Pod.Name {
			return "", err
		}
		return fmt.Sprintf("held by %q", lock.Spec.PodName), nil
	})
}
