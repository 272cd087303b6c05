package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
)

// TestReferenceComesAfterTheItem: without a Landscaper a job that has failed for lack of what its item uses begins anew
// when it comes, or when the host starts and it is there.
func TestReferenceComesAfterTheItem(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "used"}
	target := &v1alpha1.Target{ObjectMeta: meta, Spec: v1alpha1.TargetSpec{Type: "other"}}
	withSecret := target.DeepCopy()
	withSecret.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: "used"}
	withTarget := func(i *v1alpha1.DeployItem) { withTargetNamed("used")(i); i.Spec.Timeout = "1s" }
	cases := map[string]struct {
		before, after client.Object
		item          func(*v1alpha1.DeployItem)
		restarts      bool
	}{
		"Target":                     {item: withTarget, after: target},
		"Target, while no host runs": {item: withTarget, after: target, restarts: true},
		"Secret of the Target":       {item: withTarget, before: withSecret, after: &corev1.Secret{ObjectMeta: meta}},
		"Context": {
			item:  func(i *v1alpha1.DeployItem) { i.Spec.Context, i.Spec.Timeout = "used", "1s" },
			after: &v1alpha1.Context{ObjectMeta: meta},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, itemType := newServerAPI(t), newType()
			item := newDeployItem(a.newNamespace(), "item", tc.item, func(i *v1alpha1.DeployItem) {
				i.Spec.Type, i.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
			})
			create := func(object client.Object) {
				object, _ = object.DeepCopyObject().(client.Object)
				object.SetNamespace(item.Namespace)
				a.create(object)
			}
			withHost := func(do func()) {
				t.Run("host", func(t *testing.T) { // at the end of which it stops
					one := &intaketest.Deployer{PluginName: "one", Type: itemType}
					one.OnCall = func(
						ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer,
					) (*plugin.Outcome, error) {
						return succeeds(ctx, op, o)
					}
					newServerAPI(t).startController(
						&intaketest.Plugins{Serve: []*intaketest.Deployer{one}}, func(o *Options) { o.Standalone = true },
					)
					do()
				})
			}
			is := func(phase v1alpha1.DeployItemPhase) {
				a.waitFor(item, "that is "+string(phase), func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == phase })
			}
			a.create(item)
			if tc.before != nil {
				create(tc.before)
			}
			a.setJob(item, time.Now())
			withHost(func() {
				is(v1alpha1.DeployItemPhaseFailed)
				if !tc.restarts {
					create(tc.after)
					is(v1alpha1.DeployItemPhaseSucceeded)
				}
			})
			if tc.restarts {
				create(tc.after)
				withHost(func() { is(v1alpha1.DeployItemPhaseSucceeded) })
			}
		})
	}
}

// TestJobThatLacksSomething: no job is set as long as what has failed the last one is not there, and beside a
// Landscaper none at all.
func TestJobThatLacksSomething(t *testing.T) {
	for name, standalone := range map[string]bool{"standalone": true, "beside a Landscaper": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds, withTargetNamed("target"))
			b.set(func(p *parts) { p.options.Standalone = standalone })
			jobID := b.setJob()
			b.drive()
			writes := b.n
			if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseFailed || item.Status.JobID != jobID ||
				b.n != writes {
				t.Errorf("the Target is missing, but found %d more writes, %s", b.n-writes, describe(item))
			}
			b.newTarget(b.item.Namespace, "target")
			if item := b.drive(); (item.Status.JobID != jobID) != standalone || (len(b.calls) == 1) != standalone {
				t.Errorf("the Target is there, and the calls are %v: %s", b.calls, describe(item))
			}
		})
	}
}

// TestReferenceIsBeingDeleted: an item that is newer than the deletion of its Target fails at once, and gets a job when the
// Target is created again.
func TestReferenceIsBeingDeleted(t *testing.T) {
	a, itemType := newServerAPI(t), newType()
	namespace := a.newNamespace()
	newTarget := func() *v1alpha1.Target {
		return &v1alpha1.Target{
			ObjectMeta: metav1.ObjectMeta{Name: "used", Namespace: namespace, Finalizers: []string{"test.pergola.dev/kept"}},
			Spec:       v1alpha1.TargetSpec{Type: "other"},
		}
	}
	leaving := newTarget()
	a.create(leaving)
	a.remove(leaving)
	if err := a.admin.Get(t.Context(), client.ObjectKeyFromObject(leaving), leaving); err != nil {
		t.Fatal(err)
	}
	await.That(t, patience, "the next second", func() bool { // which is what a time has in the API
		return time.Now().Truncate(time.Second).After(leaving.DeletionTimestamp.Time)
	})
	item := newDeployItem(namespace, "item", withTargetNamed("used"), func(i *v1alpha1.DeployItem) {
		i.Spec.Type, i.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
	})
	a.create(item)
	a.setJob(item, time.Now())
	one := &intaketest.Deployer{PluginName: "one", Type: itemType}
	one.OnCall = func(ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer) (*plugin.Outcome, error) {
		return succeeds(ctx, op, o)
	}
	a.startController(&intaketest.Plugins{Serve: []*intaketest.Deployer{one}}, func(o *Options) {
		o.Standalone, o.Keeper = true, keeperFunc(func(...client.Object) error { return nil })
	})
	a.waitFor(item, "that has failed", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseFailed && strings.Contains(i.Status.LastError.Message, "being deleted")
	})
	leaving.Finalizers = nil
	if err := a.admin.Update(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	a.create(newTarget())
	a.waitFor(item, "that has succeeded", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
	})
}
