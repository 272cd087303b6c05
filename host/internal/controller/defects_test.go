package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func answers(outcome func() (*plugin.Outcome, error)) answer {
	return func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) { return outcome() }
}

// TestDefectsOfTheFirstImplementation has a row for each defect of Landscaper's deployer library that concerns the
// contract. The names are those under which the defects are known.
func TestDefectsOfTheFirstImplementation(t *testing.T) {
	refused := answers(func() (*plugin.Outcome, error) { return fails("Refused") })
	waiting := answers(func() (*plugin.Outcome, error) { return waits("pod a/b") })
	defects := map[string]struct {
		reason string
		answer answer
		item   func(*v1alpha1.DeployItem)
		check  func(t *testing.T, b *bench)
	}{
		"timeout: none = instant timeout": {
			reason: "none really is none", answer: waiting,
			item: func(i *v1alpha1.DeployItem) { i.Spec.Timeout = v1alpha1.NoDuration },
			check: func(t *testing.T, b *bench) {
				b.setJob()
				for range 30 {
					b.clock.Step(b.look(t.Context()))
				}
				expectPhase(t, b, v1alpha1.DeployItemPhaseProgressing)
			},
		},
		"identical errors fill lastErrors five times": {
			reason: "an error that comes again is counted", answer: refused,
			check: func(t *testing.T, b *bench) {
				b.setJob()
				for range 7 {
					b.clock.Step(b.look(t.Context()))
				}
				if diff := cmp.Diff([]string{"Refused (7 times)"}, messages(b.read())); diff != "" {
					t.Errorf("last errors (-want +got):\n%s", diff)
				}
			},
		},
		"jobID change while Progressing never re-inits": {
			reason: "a new job begins anew, and ends", answer: waiting,
			check: func(t *testing.T, b *bench) {
				b.setJob()
				b.clock.Step(b.look(t.Context()))
				b.patchStatus(b.item, `{"jobID":"j2","transitionTimes":null,"lastErrors":[{"operation":"a","reason":"b","message":"c","lastTransitionTime":"2024-03-14T12:00:00Z","lastUpdateTime":"2024-03-14T12:00:00Z"}]}`)
				b.answer = succeeds
				item := b.drive()
				if item.Status.JobIDFinished != "j2" || item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Status.LastErrors != nil {
					t.Errorf("expected job j2 to have begun anew and succeeded, but found %s", describe(item))
				}
			},
		},
		"missing Target makes deployers with non-matching selectors claim the item": {
			reason: "nobody who selects claims what nobody can select", answer: succeeds,
			item: withTargetNamed("missing"),
			check: func(t *testing.T, b *bench) {
				b.selectors, _ = responsibility.Compile([]v1alpha1.TargetSelector{{Targets: []v1alpha1.ObjectReference{{Name: "other"}}}}, nil)
				b.setJob()
				before := b.read()
				if after := b.drive(); after.ResourceVersion != before.ResourceVersion {
					t.Errorf("the item was written: %s", describe(after))
				}
			},
		},
		"deletion errors invisible": {
			reason: "a deletion shows its error while it is tried again, and says what it waits for", answer: refused,
			item: func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} },
			check: func(t *testing.T, b *bench) {
				b.remove(b.item)
				b.setJob()
				b.look(t.Context())
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseDeleting)
				if e := item.Status.LastError; e == nil || e.Message != "Refused" {
					t.Errorf("expected the error to be there to see, but found %s", describe(item))
				}
			},
		},
		"a Delete that returns nil to be continued is impossible": {
			reason: "a deletion may take many polls", answer: waiting,
			item: func(i *v1alpha1.DeployItem) {
				i.Finalizers = []string{v1alpha1.Finalizer}
				i.Spec.Timeout = v1alpha1.NoDuration
			},
			check: func(t *testing.T, b *bench) {
				b.remove(b.item)
				b.setJob()
				for range 3 {
					b.clock.Step(b.look(t.Context()))
				}
				expectPhase(t, b, v1alpha1.DeployItemPhaseDeleting)
				b.answer = succeeds
				if item := b.drive(); item != nil {
					t.Errorf("expected the item to be gone, but found %s", describe(item))
				}
			},
		},
		"no back-off (5 s fixed)": {
			reason: "pauses grow", answer: refused,
			check: func(t *testing.T, b *bench) {
				b.setJob()
				first := b.look(t.Context())
				b.clock.Step(first)
				if second := b.look(t.Context()); second < 2*first {
					t.Errorf("a pause of %s after one of %s", second, first)
				}
			},
		},
		"no back-off (10 ms on target/API errors)": {
			reason: "pauses grow whatever the error is", answer: succeeds,
			item: func(i *v1alpha1.DeployItem) { i.Spec.Context = "missing" },
			check: func(t *testing.T, b *bench) {
				b.setJob()
				for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
					pause := b.look(t.Context())
					if pause < least {
						t.Errorf("pause %d is %s", i, pause)
					}
					b.clock.Step(pause)
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
			reason: "the deletion ends with the ways out, and goes on when the Target is back", answer: succeeds,
			item: func(i *v1alpha1.DeployItem) {
				withTargetNamed("gone")(i)
				i.Finalizers = []string{v1alpha1.Finalizer}
			},
			check: func(t *testing.T, b *bench) {
				b.remove(b.item)
				b.setJob()
				b.drive()
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseDeleteFailed)
				for _, text := range []string{"Create it again", v1alpha1.DeleteWithoutUninstallAnnotation, "gone"} {
					if !strings.Contains(item.Status.LastError.Message, text) {
						t.Errorf("expected %q in %s", text, describe(item))
					}
				}
				b.newTarget(b.item.Namespace, "gone")
				if item := b.drive(); item != nil || len(b.calls) != 1 {
					t.Errorf("expected the item to be deleted by one call, but found %s, calls %v", describe(item), b.calls)
				}
			},
		},
		"status lost by write conflict": {
			reason: "a conflict reads again and decides again", answer: succeeds,
			check: func(t *testing.T, b *bench) {
				jobID := b.setJob()
				b.write = func(_ int, do func() error) error { b.touch(b.item); return do() }
				b.look(t.Context()) // the pick-up meets a conflict, and is done again from what is there
				b.write = func(n int, do func() error) error {
					if n%2 == 0 {
						b.touch(b.item)
					}
					return do()
				}
				if item := b.drive(); item.Status.JobIDFinished != jobID || b.finals != 1 || len(b.calls) != 1 {
					t.Errorf("expected one call and one end, but found %s, calls %v, %d ends", describe(item), b.calls, b.finals)
				}
			},
		},
		"deployer keeps working after Failed": {
			reason: "an interrupted job is not called for again, and nothing is written", answer: waiting,
			check: func(t *testing.T, b *bench) {
				jobID := b.setJob()
				b.clock.Step(b.look(t.Context()))
				b.patchStatus(b.item, fmt.Sprintf(`{"jobIDFinished":%q,"phase":"Failed"}`, jobID))
				before, after := b.read(), b.drive()
				before.Status.Conditions = after.Status.Conditions // which are ours
				if diff := cmp.Diff(before.Status, after.Status); diff != "" || len(b.calls) != 1 {
					t.Errorf("calls %v; status (-before +after):\n%s", b.calls, diff)
				}
			},
		},
		"pickup timeout fires under load because worker threads are exhausted": {
			reason: "a job is picked up although every call is taken, and its time does not run meanwhile", answer: succeeds,
			item: func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1s" },
			check: func(t *testing.T, b *bench) {
				b.slots.take(slotKey(1), underWay)
				jobID := b.setJob()
				for range 3 {
					b.look(t.Context())
					b.clock.Step(time.Hour)
				}
				item := expectPhase(t, b, v1alpha1.DeployItemPhaseInit)
				if item.Status.LastReconcileTime.Before(item.Status.JobIDGenerationTime) || b.n != 1 {
					t.Errorf("expected one write that shows the pick-up, but found %d, %s", b.n, describe(item))
				}
				b.slots.giveBack()
				b.expectSuccess(jobID)
			},
		},
		"endless reconcile events (#797)": {
			reason: "a job that waits has one event, however often it is looked at", answer: waiting,
			item: func(i *v1alpha1.DeployItem) { i.Spec.Timeout = v1alpha1.NoDuration },
			check: func(t *testing.T, b *bench) {
				b.setJob()
				for range 20 {
					b.clock.Step(b.look(t.Context()))
				}
				if got := len(b.events.Events); got != 1 {
					t.Errorf("expected the event of the pick-up alone, but found %d", got)
				}
			},
		},
		"idle items cost writes": {
			reason: "an item without a job is not written", answer: succeeds,
			check: func(t *testing.T, b *bench) {
				before := b.read()
				if after := b.drive(); after.ResourceVersion != before.ResourceVersion {
					t.Errorf("found %s", describe(after))
				}
			},
		},
		"errors of the API server end a job": {
			reason: "what the API server does is nobody's fault, and tried again", answer: succeeds,
			check: func(t *testing.T, b *bench) {
				jobID := b.setJob()
				b.write = func(n int, do func() error) error {
					if n < 8 {
						return apierrors.NewTooManyRequestsError("later")
					}
					return do()
				}
				b.expectSuccess(jobID)
			},
		},
	}
	for name, defect := range defects {
		t.Run(name, func(t *testing.T) {
			t.Log(defect.reason)
			var modify []func(*v1alpha1.DeployItem)
			if defect.item != nil {
				modify = append(modify, defect.item)
			}
			defect.check(t, newBench(t, defect.answer, modify...))
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

func messages(item *v1alpha1.DeployItem) []string {
	var messages []string
	for _, e := range item.Status.LastErrors {
		messages = append(messages, e.Message)
	}
	return messages
}
