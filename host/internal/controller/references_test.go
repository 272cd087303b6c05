package controller

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestReferenceComesAfterTheItem: without a Landscaper a job that has failed for lack of what its item uses begins anew
// when it comes, or when the host starts and it is there.
func TestReferenceComesAfterTheItem(t *testing.T) {
	targetOf := func(item *v1alpha1.DeployItem, secret string) *v1alpha1.Target {
		target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: "target", Namespace: item.Namespace}, Spec: v1alpha1.TargetSpec{Type: "other"}}
		if secret != "" {
			target.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: secret}
		}
		return target
	}
	cases := map[string]struct {
		before, after func(item *v1alpha1.DeployItem) client.Object
		item          func(*v1alpha1.DeployItem)
	}{
		"Target": {
			item:  withTargetNamed("target"),
			after: func(item *v1alpha1.DeployItem) client.Object { return targetOf(item, "") },
		},
		"Secret of the Target": {
			item:   func(i *v1alpha1.DeployItem) { withTargetNamed("target")(i); i.Spec.Timeout = "1s" },
			before: func(item *v1alpha1.DeployItem) client.Object { return targetOf(item, "secret") },
			after: func(item *v1alpha1.DeployItem) client.Object {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret", Namespace: item.Namespace}, StringData: map[string]string{"a": "b"}}
			},
		},
		"Context": {
			item: func(i *v1alpha1.DeployItem) { i.Spec.Context, i.Spec.Timeout = "context", "1s" },
			after: func(item *v1alpha1.DeployItem) client.Object {
				return &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: "context", Namespace: item.Namespace}}
			},
		},
	}
	for name, tc := range cases {
		for when, restarts := range map[string]bool{"": false, ", while no host runs": true} {
			t.Run(name+when, func(t *testing.T) {
				a, itemType := newServerAPI(t), newType()
				item := newDeployItem(a.newNamespace(), "item", tc.item, func(i *v1alpha1.DeployItem) {
					i.Spec.Type, i.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
				})
				a.create(item)
				if tc.before != nil {
					a.create(tc.before(item))
				}
				withHost := func(do func(a *api)) {
					t.Run("host", func(t *testing.T) { // at the end of which it stops
						one := &fakeDeployer{name: "one", itemType: itemType}
						one.call = func(ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer) (*plugin.Outcome, error) {
							return succeeds(ctx, op, o)
						}
						a := newServerAPI(t)
						a.startController(&fakePlugins{serving: []*fakeDeployer{one}}, func(o *Options) { o.Standalone = true })
						do(a)
					})
				}
				succeeded := func(a *api) { a.waitPhase(item, v1alpha1.DeployItemPhaseSucceeded) }
				a.setJob(item, time.Now())
				withHost(func(a *api) {
					a.waitPhase(item, v1alpha1.DeployItemPhaseFailed)
					if !restarts {
						a.create(tc.after(item))
						succeeded(a)
					}
				})
				if restarts {
					a.create(tc.after(item))
					withHost(succeeded)
				}
			})
		}
	}
}

func (a *api) waitPhase(item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase) {
	a.t.Helper()
	a.waitFor(item, "that is "+string(phase), func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == phase })
}

// TestJobThatLacksSomething: no job is set as long as what has failed the last one is not there, and beside a
// Landscaper none at all.
func TestJobThatLacksSomething(t *testing.T) {
	for name, standalone := range map[string]bool{"standalone": true, "beside a Landscaper": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds, withTargetNamed("target"))
			b.standalone = standalone
			jobID := b.setJob()
			b.drive()
			writes := b.n
			if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseFailed || item.Status.JobID != jobID || b.n != writes {
				t.Errorf("the Target is missing, but found %d more writes, %s", b.n-writes, describe(item))
			}
			b.newTarget(b.item.Namespace, "target")
			if item := b.drive(); (item.Status.JobID != jobID) != standalone || (len(b.calls) == 1) != standalone {
				t.Errorf("the Target is there, and the calls are %v: %s", b.calls, describe(item))
			}
		})
	}
}
