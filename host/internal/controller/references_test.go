package controller

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
)

// startStandalone starts a host without a Landscaper, with a plugin for a type, until the end of the test.
func startStandalone(t *testing.T, itemType v1alpha1.DeployItemType) {
	t.Helper()
	one := &intaketest.Deployer{PluginName: "one", Type: itemType}
	one.OnCall = succeedsFor
	newServerAPI(t).startController(&intaketest.Plugins{Serve: []*intaketest.Deployer{one}}, func(o *Options) {
		o.Standalone, o.Keeper = true, keeperFunc(func(...client.Object) error { return nil })
	})
}

// newItemOfType creates an item with a job.
func (a *api) newItemOfType(
	itemType v1alpha1.DeployItemType, namespace string, modify func(*v1alpha1.DeployItem),
) *v1alpha1.DeployItem {
	a.t.Helper()
	item := newDeployItem(namespace, "item", modify, func(i *v1alpha1.DeployItem) {
		i.Spec.Type, i.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
	})
	a.create(item)
	a.setJob(item, time.Now())
	return item
}

// waitPhase waits for a phase of an item, and a text in its last error.
func (a *api) waitPhase(item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase, says string) {
	a.t.Helper()
	a.waitFor(item, "that is "+string(phase), func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == phase && strings.Contains(describe(i), says)
	})
}

// TestReferenceComesAfterTheItem: without a Landscaper a job that has failed for lack of what its item uses begins anew
// when it comes, or when the host starts and it is there.
func TestReferenceComesAfterTheItem(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "used"}
	target := &v1alpha1.Target{ObjectMeta: meta, Spec: v1alpha1.TargetSpec{Type: "other"}}
	withSecret := target.DeepCopy()
	withSecret.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: "used"}
	withTarget := func(i *v1alpha1.DeployItem) { withTargetNamed("used")(i); i.Spec.Timeout = "1s" }
	withContext := func(i *v1alpha1.DeployItem) { i.Spec.Context, i.Spec.Timeout = "used", "1s" }
	for name, tc := range map[string]struct {
		before, after client.Object
		item          func(*v1alpha1.DeployItem)
		restarts      bool
	}{
		"Target":                     {item: withTarget, after: target},
		"Target, while no host runs": {item: withTarget, after: target, restarts: true},
		"Secret of the Target":       {item: withTarget, before: withSecret, after: &corev1.Secret{ObjectMeta: meta}},
		"Context":                    {item: withContext, after: &v1alpha1.Context{ObjectMeta: meta}},
	} {
		t.Run(name, func(t *testing.T) {
			a, itemType := newServerAPI(t), newType()
			namespace := a.newNamespace()
			create := func(object client.Object) {
				object, _ = object.DeepCopyObject().(client.Object)
				object.SetNamespace(namespace)
				a.create(object)
			}
			if tc.before != nil {
				create(tc.before)
			}
			item := a.newItemOfType(itemType, namespace, tc.item)
			t.Run("host", func(t *testing.T) { // at the end of which it stops
				startStandalone(t, itemType)
				if a.waitPhase(item, v1alpha1.DeployItemPhaseFailed, ""); !tc.restarts {
					create(tc.after)
					a.waitPhase(item, v1alpha1.DeployItemPhaseSucceeded, "")
				}
			})
			if tc.restarts {
				create(tc.after)
				startStandalone(t, itemType)
				a.waitPhase(item, v1alpha1.DeployItemPhaseSucceeded, "")
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

// TestReferenceIsBeingDeleted: an item that is newer than the deletion of its Target fails at once, and gets a job when
// the Target is created again.
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
	item := a.newItemOfType(itemType, namespace, withTargetNamed("used"))
	startStandalone(t, itemType)
	a.waitPhase(item, v1alpha1.DeployItemPhaseFailed, "being deleted")
	a.patch(leaving, `{"metadata":{"finalizers":null}}`)
	a.create(newTarget())
	a.waitPhase(item, v1alpha1.DeployItemPhaseSucceeded, "")
}
