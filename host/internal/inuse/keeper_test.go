package inuse_test

import (
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const patience = 30 * time.Second

var controlPlane testenv.OnDemand

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the controllers log is of no interest
	os.Exit(controlPlane.RunTests(m))
}

// world is a namespace with an item, what the item uses, and what no item uses.
type world struct {
	t       *testing.T
	admin   client.Client
	elected atomic.Bool
	keeper  *inuse.Keeper

	item         *v1alpha1.DeployItem
	target       *v1alpha1.Target
	lsContext    *v1alpha1.Context
	used, unused []client.Object
}

// newWorld starts a Keeper; keeps: its replica is the one that looks after what exists.
func newWorld(t *testing.T, keeps bool) *world {
	t.Helper()
	plane, admin := controlPlane.ForTest(t)
	w := &world{t: t, admin: admin}
	w.elected.Store(keeps)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "inuse-" + uuid.NewString()[:8]}}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace.Name, Name: name} }
	w.target = &v1alpha1.Target{ObjectMeta: meta("target"), Spec: v1alpha1.TargetSpec{
		Type: "other", SecretRef: &v1alpha1.LocalSecretReference{Name: "content"},
	}}
	w.lsContext = &v1alpha1.Context{ObjectMeta: meta("context"), ContextConfiguration: v1alpha1.ContextConfiguration{
		RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: "pull"}, {Name: "missing"}},
		OCMConfig:           &v1alpha1.LocalObjectReference{Name: "places"},
	}}
	w.item = &v1alpha1.DeployItem{ObjectMeta: meta("item"), Spec: v1alpha1.DeployItemSpec{
		Type: "test", Context: "context", Target: &v1alpha1.ObjectReference{Name: "target"},
	}}
	w.item.Finalizers = []string{v1alpha1.Finalizer} // and no annotation that repeats the Target
	w.used = []client.Object{
		w.target, w.lsContext, &corev1.Secret{ObjectMeta: meta("content")}, &corev1.Secret{ObjectMeta: meta("pull")},
		&corev1.ConfigMap{ObjectMeta: meta("places")},
	}
	other := w.target.DeepCopy()
	other.Name = "other"
	w.unused = []client.Object{
		other, &v1alpha1.Context{ObjectMeta: meta("other")}, &corev1.Secret{ObjectMeta: meta("other")},
		&corev1.ConfigMap{ObjectMeta: meta("other")},
	}
	w.create(append(append([]client.Object{namespace}, w.used...), w.unused...)...)

	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	source, err := itemcache.NewSource(plane.Config, scheme)
	if err != nil {
		t.Fatal(err)
	}
	options := manager.Options{Cache: cache.Options{NewInformer: source.NewInformer}}
	testenv.StartManager(t, plane.Config, options, func(m manager.Manager) (err error) {
		w.keeper, err = inuse.Setup(t.Context(), m, inuse.Options{
			Items: source.Each, Elected: w.elected.Load,
		})
		return err
	})
	return w
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) remove(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.admin.Delete(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// exist reports whether all of the objects exist, and whether all of them have the finalizer.
func (w *world) exist(objects ...client.Object) (exist, kept bool) {
	w.t.Helper()
	exist, kept = true, true
	for _, object := range objects {
		err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		exist = exist && err == nil
		kept = kept && err == nil && slices.Contains(object.GetFinalizers(), inuse.Finalizer)
	}
	return exist, kept
}

func (w *world) await(what string, so func() bool) {
	w.t.Helper()
	await.That(w.t, patience, what, so)
}

func (w *world) awaitKept(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.await(object.GetName()+" is kept", func() bool { _, kept := w.exist(object); return kept })
	}
}

// letGo ends the item, as its deployer does.
func (w *world) letGo() {
	w.t.Helper()
	w.exist(w.item)
	w.item.Finalizers = nil
	if err := w.admin.Update(w.t.Context(), w.item); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) awaitGone(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.await(object.GetName()+" is gone", func() bool { exist, _ := w.exist(object); return !exist })
	}
}

// TestKeptUntilItemIsGone: what an item uses outlives it, in whatever order all is deleted, and nothing else does.
// Rule (deploy-items.md#deleting): The needs of a deletion stay until the item is deleted, in whatever order all is
// deleted.
func TestKeptUntilItemIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.create(w.item)
	w.awaitKept(w.used...)
	w.remove(append(w.used, w.unused...)...)
	w.remove(w.item)
	w.awaitGone(w.unused...)
	if exist, _ := w.exist(w.used...); !exist {
		t.Error("something is gone that the item uses")
	}
	w.letGo()
	w.awaitGone(w.used...)
}

// TestReleased: what no item names any more is released, and so is everything when the host has gone.
func TestReleased(t *testing.T) { // not beside others, whose objects Release would release
	w := newWorld(t, true)
	w.create(w.item)
	w.awaitKept(w.used...)
	w.item.Spec.Target.Name = "other"
	if err := w.admin.Update(t.Context(), w.item); err != nil {
		t.Fatal(err)
	}
	w.awaitKept(w.unused[0])
	w.await("the Target that was replaced is released", func() bool { _, kept := w.exist(w.target); return !kept })
	w.awaitKept(w.used[2]) // the other Target refers to the same Secret

	w.elected.Store(false)
	released, err := inuse.Release(t.Context(), w.admin)
	if _, kept := w.exist(w.unused[0]); err != nil || released < 5 || kept {
		t.Errorf("expected the finalizers of five objects to be removed, but found %d, %v", released, err)
	}
	w.elected.Store(true)
	w.keeper.ReplicasChanged()
	w.awaitKept(w.unused[0], w.lsContext, w.used[2], w.used[3], w.used[4])
}

// TestKeptBeforeDeployment: all that the item uses is kept when Keep returns, although somebody has changed it since it
// was read; what is being deleted already is left as it is.
// Rule (deploy-items.md#deleting): The needs of a deletion are kept before anything is deployed.
func TestKeptBeforeDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	asRead := w.target.DeepCopy()
	w.target.Labels = map[string]string{"changed": "true"}
	w.target.Finalizers = []string{"example.org/other"}
	if err := w.admin.Update(t.Context(), w.target); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper.Keep(t.Context(), asRead, w.lsContext, &v1alpha1.Context{}); err != nil {
		t.Fatal(err)
	}
	if _, kept := w.exist(w.used...); !kept {
		t.Error("expected all that is used to have the finalizer")
	}
	if len(w.target.Finalizers) != 2 {
		t.Errorf("expected the finalizers of others to remain, but found %v", w.target.Finalizers)
	}
	w.target.Finalizers = []string{"example.org/other"}
	if err := w.admin.Update(t.Context(), w.target); err != nil {
		t.Fatal(err)
	}
	w.remove(w.target)
	w.exist(w.target)
	if err := w.keeper.Keep(t.Context(), w.target); err != nil {
		t.Errorf("expected a Target that is being deleted to be left alone, but found %v", err)
	}
}
