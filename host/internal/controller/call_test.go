package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// blocksOnce is a plugin whose first call does something, and then does not end before it is cancelled.
func blocksOnce(b **bench, meanwhile func()) answer {
	first := true
	return func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		if !first {
			return succeeds(ctx, op, o)
		}
		first = false
		meanwhile()
		(*b).memory.Changed(client.ObjectKeyFromObject((*b).item))
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, plugin.ErrInterrupted) {
			return nil, fmt.Errorf("cancelled for another reason: %w", cause)
		}
		return fails("Interrupted")
	}
}

func TestCallIsCancelled(t *testing.T) {
	var b *bench
	ask := func(operation string) func() {
		return func() { b.annotate(b.item, v1alpha1.OperationAnnotation, operation) }
	}
	const interruption = `{"jobIDFinished":%q,"phase":"Failed","lastError":{"operation":"InterruptOperation","reason":"InterruptOperation",` +
		`"message":"operation was interrupted","lastTransitionTime":"2024-03-14T12:00:00Z","lastUpdateTime":"2024-03-14T12:00:00Z"}}`
	for name, tc := range map[string]struct {
		reason    string
		meanwhile func()
		phase     v1alpha1.DeployItemPhase // empty: the item is gone
		says      string
		calls     string
	}{
		"interrupted": {
			"what Landscaper has written stays", func() {
				b.patchStatus(b.item, fmt.Sprintf(interruption, b.read().Status.JobID))
			},
			v1alpha1.DeployItemPhaseFailed, "operation was interrupted", "Reconcile",
		},
		"new job": {
			"the call was for another job", func() { b.setJob() },
			v1alpha1.DeployItemPhaseSucceeded, "", "Reconcile Reconcile",
		},
		"new job and nothing else": {
			"whoever sets nothing but a job means it, too", func() { b.patchStatus(b.item, `{"jobID":"another"}`) },
			v1alpha1.DeployItemPhaseSucceeded, "", "Reconcile Reconcile",
		},
		"deleted": {"there is something else to do", func() { b.remove(b.item) }, "", "", "Reconcile Delete"},
		"aborted": {
			"the deployer ends it in its own way", ask(v1alpha1.OperationAbort),
			v1alpha1.DeployItemPhaseFailed, "aborted by the annotation", "Reconcile Abort",
		},
		"forced": {
			"the same job goes on in another way", ask(v1alpha1.OperationForceReconcile),
			v1alpha1.DeployItemPhaseSucceeded, "", "Reconcile ForceReconcile",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b = newBench(t, blocksOnce(&b, tc.meanwhile))
			b.plugin.Capabilities = plugin.Capabilities{Abort: true, ForceReconcile: true}
			b.setJob()
			item := b.drive()
			if got := operations(b.calls); got != tc.calls {
				t.Errorf("%s: expected calls %q, but found %q", tc.reason, tc.calls, got)
			}
			if tc.phase == "" || item == nil {
				if item != nil || tc.phase != "" {
					t.Errorf("%s: found %s", tc.reason, describe(item))
				}
				return
			}
			if item.Status.Phase != tc.phase || item.Status.JobID != item.Status.JobIDFinished ||
				!strings.Contains(describe(item), tc.says) || item.Annotations[v1alpha1.OperationAnnotation] != "" {
				t.Errorf("%s: expected phase %s and %q, but found %s", tc.reason, tc.phase, tc.says, describe(item))
			}
		})
	}
}

// TestStoppedCallIsNotForgotten: what a plugin reports when it is cancelled is there for the next call.
func TestStoppedCallIsNotForgotten(t *testing.T) {
	var b *bench
	b = newBench(t, func(ctx context.Context, op plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
		if op == plugin.Delete {
			if got := rawStatus(b.read()); got != providerStatus {
				t.Errorf("Delete is called without what Reconcile has reported: %q", got)
			}
			return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
		}
		b.remove(b.item)
		b.memory.Changed(client.ObjectKeyFromObject(b.item))
		<-ctx.Done()
		return &plugin.Outcome{Errors: []plugin.Error{{Message: "stopped"}}, ProviderStatus: []byte(providerStatus)}, nil
	})
	b.setJob()
	if item := b.drive(); item != nil {
		t.Errorf("expected the item to be gone, but found %s", describe(item))
	}
}

// TestSavedStatusIsThere: a plugin that has saved its status knows that nobody else has ended its job or saved
// another one since it was called, also when it saves what was there already and nothing is written.
func TestSavedStatusIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   string
		meddle   func(status *v1alpha1.DeployItemStatus)
		outdated bool
	}{
		"nobody": {reason: "it is there", meddle: func(*v1alpha1.DeployItemStatus) {}},
		"somebody": {
			reason: "the rest is none of its business", meddle: func(s *v1alpha1.DeployItemStatus) { s.ObservedGeneration++ },
		},
		"its ending": {reason: "the job is over", outdated: true, meddle: func(s *v1alpha1.DeployItemStatus) {
			s.JobIDFinished, s.Phase = s.JobID, v1alpha1.DeployItemPhaseFailed
		}},
		"its twin": {reason: "what it goes on with is not what is there", outdated: true, meddle: func(
			s *v1alpha1.DeployItemStatus,
		) {
			s.ProviderStatus = raw(`{"apiVersion":"test.pergola.dev/v1","kind":"Status","revision":"other"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b *bench
			var err error
			b = newBench(t, func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
				if err := o.SaveProviderStatus(ctx, []byte(providerStatus)); err != nil {
					return nil, err
				}
				if len(b.calls) == 1 {
					item := b.read()
					c.meddle(&item.Status)
					if err := b.admin.Status().Update(ctx, item); err != nil {
						return nil, err
					}
					err = o.SaveProviderStatus(ctx, []byte(providerStatus))
				}
				return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
			})
			b.setJob()
			b.drive()
			if errors.Is(err, itemclient.ErrOutdated) != c.outdated || !c.outdated && err != nil {
				t.Errorf("%s: found %v", c.reason, err)
			}
		})
	}
}

func operations(calls []string) string {
	var operations []string
	for _, call := range calls {
		operation, _, _ := strings.Cut(call, " ")
		operations = append(operations, operation)
	}
	return strings.Join(operations, " ")
}

func TestCallIsNotDisturbed(t *testing.T) {
	var b *bench
	b = newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		b.touch(b.item)
		b.annotate(b.item, v1alpha1.OperationAnnotation, "reconcile") // waits for the end of the job
		b.memory.Changed(client.ObjectKeyFromObject(b.item))
		if err := o.SaveProviderStatus(ctx, []byte(providerStatus)); err != nil {
			return nil, err
		}
		b.touch(b.item)
		if len(b.calls) > 1 { // the new job: nobody asks for more
			annotations := b.read()
			delete(annotations.Annotations, v1alpha1.OperationAnnotation)
			if err := b.admin.Update(t.Context(), annotations); err != nil {
				return nil, err
			}
		}
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, ctx.Err()
	})
	first := b.setJob()
	item := b.drive()
	if got := operations(b.calls); got != "Reconcile Reconcile" || b.finals != 2 || len(b.errs) != 0 {
		t.Errorf(
			"expected one call for the job and one for the request, but found calls %q, %d ends, %v", got, b.finals, b.errs,
		)
	}
	if item.Status.JobID == first || item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected a job of our own to have succeeded, but found %s", describe(item))
	}
}

// TestEventsOfAPlugin: the events of a plugin are recorded at the deploy item.
func TestEventsOfAPlugin(t *testing.T) {
	b := newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		o.Event(false, "Repaired", "a")
		return succeeds(ctx, op, o)
	})
	b.expectSuccess(b.setJob())
	if event := <-b.events.Events; event != "Normal Repaired a" {
		t.Errorf("expected the event of the plugin, but found %q", event)
	}
}

func TestAbort(t *testing.T) {
	abort := func(outcomes ...func() (*plugin.Outcome, error)) answer {
		return func(_ context.Context, op plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
			if op != plugin.Abort {
				return waits("something")
			}
			outcome := outcomes[0]
			if len(outcomes) > 1 {
				outcomes = outcomes[1:]
			}
			return outcome()
		}
	}
	done := func() (*plugin.Outcome, error) { return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil }
	busy := func() (*plugin.Outcome, error) {
		return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "the abort"}}, nil
	}
	slow := func() (*plugin.Outcome, error) { return waits("the abort") }
	refused := func() (*plugin.Outcome, error) { return fails("Refused") }
	final := func() (*plugin.Outcome, error) {
		return &plugin.Outcome{
			Errors: []plugin.Error{{Message: "cannot", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}}},
		}, nil
	}
	late := func() (*plugin.Outcome, error) { return nil, context.DeadlineExceeded }
	cases := map[string]struct {
		reason string
		answer answer
		unable bool
		says   string
		calls  string
	}{
		"after a while": {
			reason: "an abort may take several calls", answer: abort(busy, refused, done), says: "aborted by the annotation",
			calls: "Reconcile Abort Abort Abort",
		},
		"never": {
			reason: "the job ends all the same", answer: abort(slow), says: "did not finish the abort in time",
			calls: "Reconcile Abort",
		},
		"too late": {
			reason: "the job ends all the same", answer: abort(late), says: "did not finish the abort in time",
			calls: "Reconcile Abort",
		},
		"impossible": {
			reason: "the job ends all the same, and says why it may not be clean", answer: abort(final),
			says: "could not do it in its own way: cannot", calls: "Reconcile Abort",
		},
		"no Abort": {
			reason: "a plugin without it is not called", answer: abort(), unable: true, says: "aborted by the annotation",
			calls: "Reconcile",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.answer, func(i *v1alpha1.DeployItem) {
				i.Spec.Timeout = v1alpha1.NoDuration
				i.Finalizers = []string{v1alpha1.Finalizer}
			})
			b.plugin.Capabilities.Abort = !tc.unable
			jobID := b.setJob()
			b.reconcile(t.Context())
			b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
			item := b.drive()
			expectPhase(t, b, v1alpha1.DeployItemPhaseFailed)
			if item.Status.JobIDFinished != jobID || item.Status.LastError.Reason != "Aborted" ||
				!strings.Contains(describe(item), tc.says) {
				t.Errorf("%s: expected %q, but found %s", tc.reason, tc.says, describe(item))
			}
			if diff := cmp.Diff(tc.calls, operations(b.calls)); diff != "" {
				t.Errorf("%s: calls (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProgressIsShown(t *testing.T) {
	var b *bench
	b = newBench(t, func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		if contract.WaitingFor(b.read()) != "" {
			t.Errorf("what has not been said is shown: %s", describe(b.read()))
		}
		o.Progress("ReadChart", "reading chart")
		for contract.WaitingFor(b.read()) != "reading chart" { // the ticker runs in a goroutine of its own
			b.clock.Step(stepInterval)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		o.Progress("Install", "installing")
		return nil, context.DeadlineExceeded
	})
	b.setJob()
	item := b.drive()
	if e := item.Status.LastError; e == nil ||
		!strings.HasSuffix(e.Message, `the plugin "one" had not ended the call Reconcile; it was waiting for: installing`) {
		t.Errorf("expected a timeout that names the plugin, the call and the last step, but found %s", describe(item))
	}
}

// TestLandscaperTakesOurJobAway: a Landscaper whose execution still runs answers each job of ours with its own, which
// is finished.
func TestLandscaperTakesOurJobAway(t *testing.T) {
	b := newBench(t, succeeds)
	landscapers := b.setJob()
	b.drive()
	b.answer = func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
		b.patchStatus(b.item, fmt.Sprintf(`{"jobID":%q}`, landscapers))
		b.memory.Changed(client.ObjectKeyFromObject(b.item))
		<-ctx.Done()
		return fails("stopped")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	b.drive()
	item := expectPhase(t, b, v1alpha1.DeployItemPhaseFailed)
	if item.Status.LastError.Reason != "JobReplaced" || len(b.calls) != 2 {
		t.Errorf("expected one try that ends, but found %s, calls %v", describe(item), b.calls)
	}
}
