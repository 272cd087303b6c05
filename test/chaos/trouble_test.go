package chaos

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// victim is any replica but the first of several, whose host stays alive, so that it can be measured.
func (e *engine) victim() *testenv.Replica {
	if len(e.fleet) == 1 {
		return e.fleet[0]
	}
	return e.fleet[1+e.random.IntN(len(e.fleet)-1)]
}

// killPlugin kills a plugin of a replica, the first one, too: what its host keeps of plugins that have died is
// measured.
func (e *engine) killPlugin(string) (done bool) {
	children, err := e.fleet[e.random.IntN(len(e.fleet))].Children()
	if err != nil {
		e.t.Fatal(err)
	}
	name := []string{"counter", "manifest"}[e.random.IntN(2)]
	for _, pid := range children[name] {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			e.t.Fatal(err)
		}
		done = true
	}
	return done
}

// killHost kills a replica, which another one takes the place of, and which may be killed before it is ready. Its pod
// is deleted.
func (e *engine) killHost(string) bool {
	r := e.victim()
	e.end(r, r.Kill)
	if err := r.DeletePod(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	e.launch()
	return true
}

// loseHost kills a replica whose pod stays, as on a node that is lost. It counts if others have to take over a lock
// then.
func (e *engine) loseHost(string) bool {
	r, locks := e.victim(), &v1alpha1.SyncObjectList{}
	if err := e.admin.List(e.t.Context(), locks, client.InNamespace(namespace)); err != nil {
		e.t.Fatal(err)
	}
	e.end(r, r.Kill)
	e.launch()
	return slices.ContainsFunc(locks.Items, func(l v1alpha1.SyncObject) bool { return l.Spec.PodName == r.Pod.Name })
}

// replaceHost starts a replica and stops another one, as a rolling upgrade does.
func (e *engine) replaceHost(string) bool {
	r := e.victim()
	e.launch()
	e.end(r, r.Stop)
	if err := r.DeletePod(e.t.Context()); client.IgnoreNotFound(err) != nil {
		e.t.Fatal(err)
	}
	return true
}

// loseTarget lets nobody get through to the target for a while.
func (e *engine) loseTarget(string) bool {
	e.targetAway.Store(true)
	defer e.targetAway.Store(false)
	e.wait(e.outage)
	return true
}

// restartAPIServer kills the API server and starts it again. What it has logged until then is judged.
func (e *engine) restartAPIServer(string) bool {
	log, calls, partial := e.plane.AuditLog+".old", readCalls(e.t, e.dir), len(e.judge.restarts) > 0
	e.judge.restarts = append(e.judge.restarts, time.Now())
	if err := errors.Join(os.Rename(e.plane.AuditLog, log), e.plane.RestartAPIServer()); err != nil {
		e.t.Fatal(err)
	}
	e.judge.look(log, calls, partial)
	await.That(e.t, patience, "the API server to answer", func() bool {
		return e.admin.List(e.t.Context(), &v1alpha1.TargetList{}, client.InNamespace(namespace)) == nil
	})
	return true
}
