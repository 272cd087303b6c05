package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// blocksOnce is a plugin whose first call does something, and then does not end before it is cancelled. What that call
// reports is there for the next one.
func blocksOnce(b **bench, meanwhile func()) answer {
	return func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		if len((*b).calls) > 1 {
			if got := rawStatus((*b).read()); got != providerStatus {
				(*b).t.Errorf("%s is called without what the call before has reported: %q", op, got)
			}
			return succeeds(ctx, op, o)
		}
		meanwhile()
		(*b).memory.Changed(client.ObjectKeyFromObject((*b).item))
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, plugin.ErrInterrupted) {
			return nil, fmt.Errorf("cancelled for another reason: %w", cause)
		}
		return &plugin.Outcome{Errors: []plugin.Error{{Message: "stopped"}}, ProviderStatus: []byte(providerStatus)}, nil
	}
}

func TestCallIsCancelled(t *testing.T) {
	var b *bench
	ask := func(operation string) func() {
		return func() { b.annotate(b.item, v1alpha1.OperationAnnotation, operation) }
	}
	const interruption = `{"jobIDFinished":%q,"phase":"Failed","lastError":{
		"operation":"InterruptOperation","reason":"InterruptOperation","message":"operation was interrupted",
		"lastTransitionTime":"2024-03-14T12:00:00Z","lastUpdateTime":"2024-03-14T12:00:00Z"}}`
	for name, tc := range map[string]struct {
		reason    string
		meanwhile func()
		phase     v1alpha1.DeployItemPhase // empty: the item is gone
		says      string
		calls     string
	}{
		// Rule (deploy-items.md#jobs): An interruption cancels the call, and Landscaper's writes stay.
		"interrupted": {
			"what Landscaper has written stays", func() {
				b.patchStatus(b.item, fmt.Sprintf(interruption, b.read().Status.JobID))
			},
			v1alpha1.DeployItemPhaseFailed, "operation was interrupted", "Reconcile",
		},
		// Rule (deploy-items.md#jobs): A new job cancels the call for the one before.
		"new job": {
			"the call was for another job", func() { b.setJob() },
			v1alpha1.DeployItemPhaseSucceeded, "", "Reconcile Reconcile",
		},
		"new job and nothing else": {
			"nothing but its ID makes a job", func() { b.patchStatus(b.item, `{"jobID":"another"}`) },
			v1alpha1.DeployItemPhaseSucceeded, "", "Reconcile Reconcile",
		},
		// Rule (deploy-items.md#deleting): A deletion during a job ends the call, and deletes.
		"deleted": {"there is something else to do", func() { b.remove(b.item) }, "", "", "Reconcile Delete"},
		// Rule (deploy-items.md#operations): `abort` ends the running call, and has the deployer abort the job.
		"aborted": {
			"the deployer ends it in its own way", ask(v1alpha1.OperationAbort),
			v1alpha1.DeployItemPhaseFailed, "aborted by the annotation", "Reconcile Abort",
		},
		// Rule (deploy-items.md#operations): `force-reconcile` replaces the running call of the job.
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

// TestSavedStatusIsThere: a plugin that has saved its status knows that its job goes on with it, also when it saves
// what was there already and nothing is written.
func TestSavedStatusIsThere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, meanwhile string
		outdated          bool
	}{
		"unchanged":   {"it is there", `{}`, false},
		"other field": {"the rest is none of its business", `{"deployItemPhase":"Progressing"}`, false},
		"ended":       {"the job is over", `{"jobIDFinished":%q,"phase":"Failed"}`, true},
		"other status": {
			"the job does not go on with it",
			`{"providerStatus":{"apiVersion":"test.pergola.dev/v1","kind":"Status","revision":"other"}}`, true,
		},
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
					b.patchStatus(b.item, strings.ReplaceAll(tc.meanwhile, "%q", strconv.Quote(b.read().Status.JobID)))
					err = o.SaveProviderStatus(ctx, []byte(providerStatus))
				}
				return succeeded()
			})
			b.setJob()
			b.drive()
			if errors.Is(err, itemclient.ErrOutdated) != tc.outdated || !tc.outdated && err != nil {
				t.Errorf("%s: found %v", tc.reason, err)
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
		if len(b.calls) > 1 { // the new job, and there are no more requests
			b.patch(b.item, `{"metadata":{"annotations":{"`+v1alpha1.OperationAnnotation+`":null}}}`)
		}
		outcome, _ := succeeded()
		return outcome, ctx.Err()
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

func TestAbort(t *testing.T) {
	type outcome = func() (*plugin.Outcome, error)
	busy := func() (*plugin.Outcome, error) {
		return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "the abort"}}, nil
	}
	slow := func() (*plugin.Outcome, error) { return waits("the abort") }
	refused := func() (*plugin.Outcome, error) { return fails("Refused") }
	final := func() (*plugin.Outcome, error) { return failsFor(v1alpha1.ErrorInternalProblem, "cannot") }
	late := func() (*plugin.Outcome, error) { return nil, context.DeadlineExceeded }
	for name, tc := range map[string]struct {
		reason   string
		outcomes []outcome // none: the plugin has no Abort
		says     string
	}{
		"after a while": {
			"an abort may take several calls", []outcome{busy, refused, succeeded}, "aborted by the annotation",
		},
		// Rule (deploy-items.md#operations): An aborted job ends in any case, even if its deployer does not answer.
		"never":    {"the job ends all the same", []outcome{slow}, "did not finish the abort in time"},
		"too late": {"the job ends all the same", []outcome{late}, "did not finish the abort in time"},
		"impossible": {
			"the job ends all the same, and says why it may not be clean", []outcome{final},
			"could not do it in its own way: cannot",
		},
		"no Abort": {"a plugin without it is not called", nil, "aborted by the annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			b = newBench(t, func(_ context.Context, op plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
				if op == plugin.Abort {
					return tc.outcomes[len(b.calls)-2]()
				}
				return waits("something")
			}, withoutTimeout)
			b.plugin.Capabilities.Abort = len(tc.outcomes) > 0
			b.setJob()
			b.reconcile(t.Context())
			b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
			item := b.driveTo(v1alpha1.DeployItemPhaseFailed)
			if item.Status.LastError.Reason != "Aborted" || !strings.Contains(describe(item), tc.says) {
				t.Errorf("%s: expected %q, but found %s", tc.reason, tc.says, describe(item))
			}
			if want := "Reconcile" + strings.Repeat(" Abort", len(tc.outcomes)); operations(b.calls) != want {
				t.Errorf("%s: expected the calls %q, but found %q", tc.reason, want, operations(b.calls))
			}
		})
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
	item := b.driveTo(v1alpha1.DeployItemPhaseFailed)
	if item.Status.LastError.Reason != "JobReplaced" || len(b.calls) != 2 {
		t.Errorf("expected one try that ends, but found %s, calls %v", describe(item), b.calls)
	}
}

// TestForcedOnce: asynchronous work is forced once, and then waited for.
// Rule (deploy-items.md#operations): A forced job goes on with usual calls after the first answer.
func TestForcedOnce(t *testing.T) {
	t.Parallel()
	var b *bench
	b = newBench(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		switch len(b.calls) {
		case 1:
			return fails("Throttled")
		case 2, 3:
			return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Minute, WaitingFor: "it"}}, nil
		}
		return succeeded()
	})
	b.plugin.Capabilities.ForceReconcile = true
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationForceReconcile)
	item := b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	want := "ForceReconcile ForceReconcile Reconcile Reconcile"
	if got := operations(b.calls); got != want {
		t.Errorf("expected the calls %q, but found %q: %s", want, got, describe(item))
	}
}
