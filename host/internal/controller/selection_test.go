package controller

import (
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// selects makes a bench that of a host which is meant for one Target.
func (b *bench) selects(target string) {
	b.t.Helper()
	selectors, errs := selector.Compile(
		[]v1alpha1.TargetSelector{{Targets: []v1alpha1.ObjectReference{{Name: target}}}}, nil,
	)
	if errs != nil {
		b.t.Fatal(errs)
	}
	b.set(func(p *parts) { p.options.Selectors = selectors })
}

// TestClaimedItemsStayClaimed: selectors tell which items a host claims. What it has claimed comes to its end,
// whatever becomes of the Target.
func TestClaimedItemsStayClaimed(t *testing.T) {
	cases := map[string]struct {
		reason string
		before func(b *bench)
		check  func(t *testing.T, b *bench)
	}{
		"timeout": {
			reason: "nobody else ends a job that was picked up",
			check:  func(t *testing.T, b *bench) { b.drive(); expectPhase(t, b, v1alpha1.DeployItemPhaseFailed) },
		},
		"abort": {
			reason: "an abort is heard",
			before: func(b *bench) { b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort) },
			check: func(t *testing.T, b *bench) {
				b.drive()
				if item := expectPhase(t, b, v1alpha1.DeployItemPhaseFailed); item.Status.LastError.Reason != "Aborted" {
					t.Errorf("found %s", describe(item))
				}
			},
		},
		"deletion": {
			reason: "the deletion shows what is missing, and goes on when it is back",
			before: func(b *bench) { b.remove(b.item); b.setJob() },
			check: func(t *testing.T, b *bench) {
				b.drive()
				if item := expectPhase(
					t, b, v1alpha1.DeployItemPhaseDeleteFailed,
				); item.Status.LastError.Reason != contract.ReasonTargetNotFound {
					t.Errorf("found %s", describe(item))
				}
				b.newTarget(b.item.Namespace, "here")
				b.answer = succeeds
				if item := b.drive(); item != nil {
					t.Errorf("the Target is back, but found %s", describe(item))
				}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, always(waits("something")), withTargetNamed("here"))
			target := b.newTarget(b.item.Namespace, "here")
			b.selects("here")
			b.setJob()
			b.clock.Step(b.reconcile(t.Context()))
			b.remove(target)
			if tc.before != nil {
				tc.before(b)
			}
			tc.check(t, b)
		})
	}
}

// TestDeletionThatNobodyClaimed: the host was not there, or did not know the item, when its Target went.
func TestDeletionThatNobodyClaimed(t *testing.T) {
	b := newBench(
		t, succeeds, withTargetNamed("here"), func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} },
	)
	b.selects("here")
	b.remove(b.item)
	jobID := b.setJob()
	item := b.read()
	if b.drive(); b.read().ResourceVersion != item.ResourceVersion {
		t.Fatalf("the item of another host was written: %s", describe(b.read()))
	}
	item.Status.Deployer = v1alpha1.DeployerInformation{
		Identity: b.options.Identity, Name: "one",
	} // this host has deployed it
	item.Status.Conditions = nil
	if err := b.admin.Status().Update(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	b.drive()
	failed := expectPhase(t, b, v1alpha1.DeployItemPhaseDeleteFailed)
	if failed.Status.JobIDFinished != jobID || failed.Status.LastError.Reason != contract.ReasonTargetNotFound {
		t.Errorf("expected an error that names the Target, but found %s", describe(failed))
	}
	b.annotate(b.item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	if item := b.drive(); item != nil || len(b.calls) != 0 {
		t.Errorf("expected the item to go without a call, but found %s, %v", describe(item), b.calls)
	}
}
