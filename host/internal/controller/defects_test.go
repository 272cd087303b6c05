package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestDefectsOfTheFirstImplementation has a row for each defect of Landscaper's deployer library that no other test
// shows not to be here. The names are those under which the defects are known.
func TestDefectsOfTheFirstImplementation(t *testing.T) {
	refused := always(fails("Refused"))
	waiting := always(waits("pod a/b"))
	deletion := func(b *bench) { b.remove(b.item); b.setJob() }
	reconcile := func(b *bench, n int) {
		for range n {
			b.clock.Step(b.reconcile(b.t.Context()))
		}
	}
	for name, defect := range map[string]struct {
		reason string
		answer answer
		item   func(*v1alpha1.DeployItem)
		check  func(t *testing.T, b *bench)
	}{
		"jobID change while Progressing never re-inits": {
			reason: "a new job begins anew, and ends", answer: waiting, item: withoutTimeout,
			check: func(t *testing.T, b *bench) {
				b.setJob()
				reconcile(b, 1)
				b.patchStatus(b.item, `{"jobID":"j2","transitionTimes":null}`)
				b.answer = succeeds
				if item := b.drive(); item.Status.JobIDFinished != "j2" || item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
					t.Errorf("expected job j2 to have begun anew and succeeded, but found %s", describe(item))
				}
			},
		},
		"deletion errors invisible": {
			reason: "a deletion shows its error while it is tried again", answer: refused, item: withoutTimeout,
			check: func(t *testing.T, b *bench) {
				deletion(b)
				reconcile(b, 1)
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseDeleting)
				if e := item.Status.LastError; e == nil || e.Message != "Refused" {
					t.Errorf("expected the error to be there to see, but found %s", describe(item))
				}
			},
		},
		"items reconciled for months because Context missing (#875)": {
			reason: "a job without its Context ends with its timeout, and says why", answer: succeeds,
			item: func(i *v1alpha1.DeployItem) { i.Spec.Context = "missing" },
			check: func(t *testing.T, b *bench) {
				b.setJob()
				b.drive()
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseFailed)
				if e := item.Status.LastError; e.Reason != "ProgressingTimeout" || !strings.Contains(e.Message, `Context`) {
					t.Errorf("expected a timeout that names the Context, but found %s", describe(item))
				}
			},
		},
		"resources that cannot be deleted: target gone (#309)": {
			reason: "the deletion ends with the ways out", answer: succeeds,
			item: func(i *v1alpha1.DeployItem) { withTargetNamed("gone")(i); withoutTimeout(i) },
			check: func(t *testing.T, b *bench) {
				deletion(b)
				b.drive()
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseDeleteFailed)
				for _, text := range []string{"Create it again", v1alpha1.DeleteWithoutUninstallAnnotation, "gone"} {
					if !strings.Contains(item.Status.LastError.Message, text) {
						t.Errorf("expected %q in %s", text, describe(item))
					}
				}
			},
		},
		"pickup timeout fires under load because worker threads are exhausted": {
			reason: "a job is picked up although every call is taken, and its time does not run meanwhile", answer: succeeds,
			item: func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1s" },
			check: func(t *testing.T, b *bench) {
				b.slots.Acquire(anotherItem, slots.Share{}, slots.Running)
				jobID := b.setJob()
				for range 3 {
					b.reconcile(t.Context())
					b.clock.Step(time.Hour)
				}
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseInit)
				if item.Status.LastReconcileTime.Before(item.Status.JobIDGenerationTime) || b.n != 1 {
					t.Errorf("expected one write that shows the pick-up, but found %d, %s", b.n, describe(item))
				}
				b.slots.Release(anotherItem)
				b.expectSuccess(jobID)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(defect.reason)
			defect.check(t, newBench(t, defect.answer, defect.item))
		})
	}
}

func withTargetNamed(name string) func(*v1alpha1.DeployItem) {
	return func(i *v1alpha1.DeployItem) {
		i.Spec.Target = &v1alpha1.ObjectReference{Name: name, Namespace: i.Namespace}
		i.Annotations[v1alpha1.DeployerTargetNameAnnotation] = name
	}
}

func expectPhase(t *testing.T, b *bench, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	item := b.read()
	if item.Status.Phase != phase || phase.IsFinal() != (item.Status.JobID == item.Status.JobIDFinished) {
		t.Fatalf("expected phase %s, but found %s", phase, describe(item))
	}
	return item
}
