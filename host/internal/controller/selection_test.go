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

// TestClaimedItemsStayClaimed: selectors tell which items a host claims. A job that it has picked up comes to its end,
// whatever becomes of the Target.
// Rule (host-configuration.md#target-selectors): A picked-up job is finished, whatever becomes of its Target.
func TestClaimedItemsStayClaimed(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		before func(b *bench)
		phase  v1alpha1.DeployItemPhase
		why    string
	}{
		"timeout": {"the time of a job runs", func(*bench) {}, v1alpha1.DeployItemPhaseFailed, "ProgressingTimeout"},
		"abort": {
			"an abort is heard", func(b *bench) { b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort) },
			v1alpha1.DeployItemPhaseFailed, "Aborted",
		},
		"deletion": {
			"the deletion shows the Target that is missing", func(b *bench) { b.remove(b.item); b.setJob() },
			v1alpha1.DeployItemPhaseDeleteFailed, contract.ReasonTargetNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, always(waits("something")), withTargetNamed("here"))
			target := b.newTarget(b.item.Namespace, "here")
			b.selects("here")
			b.setJob()
			b.clock.Step(b.reconcile(t.Context()))
			b.remove(target)
			tc.before(b)
			if item := b.driveTo(tc.phase); item.Status.LastError.Reason != tc.why {
				t.Errorf("%s: found %s", tc.reason, describe(item))
			}
			if name != "deletion" {
				return
			}
			b.newTarget(b.item.Namespace, "here")
			b.answer = succeeds
			if item := b.drive(); item != nil {
				t.Errorf("the Target is back, but found %s", describe(item))
			}
		})
	}
}

// TestDeletionOfAnUnclaimedItem: the host was not there, or did not know the item, when its Target went.
func TestDeletionOfAnUnclaimedItem(t *testing.T) {
	b := newBench(t, succeeds, withTargetNamed("here"), withFinalizer)
	b.selects("here")
	b.remove(b.item)
	jobID := b.setJob()
	item := b.read()
	if b.drive(); b.read().ResourceVersion != item.ResourceVersion {
		t.Fatalf("the item of another host was written: %s", describe(b.read()))
	}
	// This host has deployed it.
	b.patchStatus(b.item, `{"deployer":{"identity":"here","name":"one"},"conditions":null}`)
	failed := b.driveTo(v1alpha1.DeployItemPhaseDeleteFailed)
	if failed.Status.JobIDFinished != jobID || failed.Status.LastError.Reason != contract.ReasonTargetNotFound {
		t.Errorf("expected an error that names the Target, but found %s", describe(failed))
	}
	b.annotate(b.item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	if item := b.drive(); item != nil || len(b.calls) != 0 {
		t.Errorf("expected the item to go without a call, but found %s, %v", describe(item), b.calls)
	}
}
