package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// What is done and in which order is repeated with a seed, and so is how the plugin behaves in a job; what meets what
// is not.
var (
	seed   = flag.Uint64("chaos.seed", 1, "seed of what happens at random; 0 for another one each time")
	length = flag.Duration("chaos.for", 0, "how long there is trouble; 0 for a little, API server aside")
	items  = flag.Int("chaos.items", 40, "deploy items of the replicas under fire, half of them of manifest")
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest, least of all while the API server is away
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestRandomInterleavings lets a Landscaper, users, a deployer that does as it likes, and a host that is killed and
// started again do random things to some deploy items.
func TestRandomInterleavings(t *testing.T) {
	t.Parallel()
	e := newEngine(t, variant{
		replicas: 1,
		settings: "workers: 4", // fewer than items, so that some jobs have to wait for their turn
		length:   max(*length, 25*time.Second), pause: 40 * time.Millisecond,
		actions: []action{
			{"set a job", 30, true, (*engine).setJob},
			{"set a job in the middle", 10, true, (*engine).setJobInTheMiddle},
			{"interrupt", 5, true, (*engine).interrupt},
			{"create", 20, true, (*engine).createItem},
			{"change spec", 6, true, (*engine).changeSpec},
			{"change timeout", 3, true, (*engine).changeTimeout},
			{"label", 6, true, (*engine).label},
			{"operation reconcile", 4, true, operation("reconcile")},
			{"operation force-reconcile", 4, true, operation("force-reconcile")},
			{"operation abort", 5, true, operation("abort")},
			{"operation nonsense", 1, false, operation("nonsense")},
			{"delete", 5, true, (*engine).deleteItem},
			{"leave behind", 1, false, annotate(v1alpha1.DeleteWithoutUninstallAnnotation, "true")},
			{"touch a foreign item", 4, true, (*engine).touchForeign},
			{"take the Context away or bring it back", 2, true, (*engine).toggleContext},
			{"kill a plugin", 1, false, (*engine).killPlugin},
			{"kill a host", 2, true, (*engine).killHost},
		},
	})
	for i := range 10 {
		e.names = append(e.names, fmt.Sprintf("item-%d", i))
	}
	e.createForeignItems()
	e.start()
	e.run()

	// The deployer succeeds from now on, users do nothing any more, and the Landscaper only sees deletions through.
	if err := os.WriteFile(e.calmFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.ok(e.admin.Create(t.Context(), fickle()))
	for _, name := range e.names {
		e.eventually("rest of "+name, func(ctx context.Context) (string, error) { return e.unrest(ctx, name) })
	}
	e.finish()
}

// TestReplicasUnderFire lets three replicas carry out jobs, of their own and of a Landscaper, while hosts and plugins
// are killed and the target cannot be reached. With -chaos.for it is a soak test: the API server is killed, too, and
// nothing may grow.
func TestReplicasUnderFire(t *testing.T) {
	t.Parallel()
	v, every, restarts := variant{
		replicas: 3, standalone: true, calm: true,
		length: 8 * time.Second, pause: 200 * time.Millisecond, outage: 2 * time.Second,
		// The Lease outlasts the moments in which a busy machine lets a host do nothing, after which it would call
		// again.
		settings: "maxPluginCrashes: 100\ntimeouts: {lease: 10s}",
	}, 4*time.Second, 0
	if *length > 0 {
		v.length, v.pause, v.outage, v.settings = *length, 800*time.Millisecond, 15*time.Second, "maxPluginCrashes: 100"
		every, restarts = time.Minute, 1
	}
	v.actions = []action{
		{"set a job", 100, true, (*engine).setJob},
		{"kill a plugin", 4, true, (*engine).killPlugin},
		{"kill a host", 3, true, (*engine).killHost},
		{"lose a host whose pod stays", 2, true, (*engine).loseHost},
		{"replace a host", 2, true, (*engine).replaceHost},
		{"lose the target", 2, true, (*engine).loseTarget},
		{"restart the API server", restarts, restarts > 0, (*engine).restartAPIServer},
	}
	e := newEngine(t, v)
	e.createFleetItems(every)
	e.start()
	e.awaitSuccess(time.Time{})
	e.run()
	e.awaitSuccess(time.Now())
	e.finish()
	e.checkLeft()
	e.checkGrowth(*length > 0)
	if e.judge.takeovers == 0 {
		t.Error("no lock was ever taken over: the test means nothing")
	}
}

// createFleetItems creates items that are reconciled again every so often, and whose timeout no outage outlasts: a
// job that fails over one would be right, and hide one that is wrong.
func (e *engine) createFleetItems(every time.Duration) {
	again := map[string]any{"every": every.String()}
	for i := range *items {
		name := fmt.Sprintf("item-%05d", i)
		item := newItem(name, counterType, "", map[string]any{
			"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": e.dir,
			"millis": 20, "polls": 1, "pollMillis": 2000, "continuousReconcile": again,
		})
		if i%2 == 1 {
			object := map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "value"},
				"metadata": map[string]any{"namespace": namespace, "name": name},
			}
			item = newItem(name, manifestType, "target", map[string]any{
				"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
				"manifests":           []any{map[string]any{"policy": "manage", "manifest": object}},
				"continuousReconcile": again,
			})
		}
		e.names = append(e.names, name)
		e.create(item)
	}
}

// awaitSuccess waits until each item has succeeded in a job that was begun after a time.
func (e *engine) awaitSuccess(after time.Time) {
	e.t.Helper()
	for _, name := range e.names {
		e.eventually("success of deploy item "+name, func(ctx context.Context) (string, error) {
			item := &v1alpha1.DeployItem{}
			err := e.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, item)
			s := &item.Status
			succeeded := s.Phase == v1alpha1.DeployItemPhaseSucceeded && s.JobID == s.JobIDFinished
			if succeeded && !s.LastReconcileTime.Time.Before(after.Truncate(time.Second)) {
				return "", err
			}
			return state(item), err
		})
	}
}

// checkLeft checks that the objects of all items are on the target, and that each lock is there and nobody's.
func (e *engine) checkLeft() {
	e.t.Helper()
	objects, locks := &corev1.ConfigMapList{}, &v1alpha1.SyncObjectList{}
	for _, list := range []client.ObjectList{objects, locks} {
		if err := e.admin.List(e.t.Context(), list, client.InNamespace(namespace)); err != nil {
			e.t.Fatal(err)
		}
	}
	there := 0
	for _, o := range objects.Items {
		if o.Data["key"] == "value" {
			there++
		}
	}
	if there != *items/2 || len(locks.Items) != *items {
		e.t.Errorf("of %d items there are %d objects on the target and %d locks", *items, there, len(locks.Items))
	}
	for _, lock := range locks.Items {
		if lock.Spec.PodName != "" {
			e.t.Errorf("lock %s is held by %s, which is gone", lock.Name, lock.Spec.PodName)
		}
	}
}
