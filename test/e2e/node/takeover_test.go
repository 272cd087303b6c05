package node

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestTakeover: when a replica dies whose job is under way, another one goes on with the Pod of the job, and main
// runs once.
func TestTakeover(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := newWorld(t)
	o := w.hostWith(nil, nil)
	o.PodNamespace = hostNamespace
	holder := w.startReplica(o, "first")
	gate := w.namespace + "-gate"
	job := w.put("shop", stepConfig("mark", "--", "await", "/marks/"+gate, "--", "export", `{"a":1}`))
	w.awaitRuns("shop", 1)
	w.startReplica(o, "second")
	if err := holder.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := holder.DeletePod(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.letGo(gate)
	if exports := w.exports(w.finish("shop", job, succeeded)); exports["a"] != 1.0 {
		t.Errorf("found exports %v", exports)
	}
	uid := w.uid("shop")
	w.mustHaveOnly(uid, "result", "state")
	w.remove("shop")
	w.awaitGone("shop")
	w.mustHaveRun("shop", "RECONCILE", "DELETE")
	w.mustHaveOnly(uid)
}

// startReplica starts a host that takes itself for a Pod, and waits until it is ready. At the end of the test it is
// stopped, and the Pod deleted.
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
	w.keep(r.Host)
	return r
}
