package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Rule (deploy-items.md#next-tries): A deployer knows the failed job that a try repeats.
func TestTryNamesFirstJob(t *testing.T) {
	pauses := contract.Pauses{First: time.Minute, Longest: time.Hour}
	var jobs []string
	b := newBench(t, nil)
	b.plugin.OnCall = func(
		_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer,
	) (*plugin.Outcome, error) {
		jobs = append(jobs, sdkhook.FirstJob(c.DeployItem))
		return &plugin.Outcome{Errors: []plugin.Error{{Message: "away", Codes: []v1alpha1.ErrorCode{
			v1alpha1.ErrorTimeout,
		}}}}, nil
	}
	b.set(func(p *parts) { p.options.Standalone, p.options.Pauses = true, pauses })
	first := b.setJob()
	for range 3 {
		item := b.driveTo(v1alpha1.DeployItemPhaseFailed)
		next, ok := pauses.NextTry(item)
		if !ok {
			t.Fatalf("no next try is planned: %s", describe(item))
		}
		before := item.DeepCopy()
		contract.SetTry(item, "try-"+item.Status.JobID, next, b.clock.Now())
		if err := b.admin.Status().Patch(t.Context(), item, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	for _, job := range jobs {
		if job != first || len(jobs) != 3 {
			t.Errorf("expected three calls for job %s, but found %q", first, jobs)
		}
	}
}

// Rule (deploy-items.md#next-tries): A paused item has no jobs by a schedule, and operations by annotation work.
func TestPaused(t *testing.T) {
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.set(func(p *parts) { p.options.Standalone = true })
	b.results[sdkhook.ShouldReconcile] = &sdkhook.Result{} // it asks for a job
	b.annotate(b.item, contract.PausedAnnotation, "true")
	b.drive()
	b.expectPassed("a paused item")
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	b.expectPassed("an operation of a paused item", "ShouldReconcile", "call Reconcile")
}

// Rule (deploy-items.md#errors): The same error again is counted and does not fill the list.
// Rule (deploy-items.md#errors): Errors are tried again after growing pauses.
func TestErrorsAreRetriedLessAndLessOften(t *testing.T) {
	b := newBench(t, always(fails("Refused")))
	jobID := b.setJob()
	var pauses []time.Duration
	for range 4 {
		pauses = append(pauses, b.reconcile(t.Context()))
		b.clock.Step(pauses[len(pauses)-1])
	}
	if got := fmt.Sprint(pauses); got != "[1s 2s 4s 8s]" {
		t.Errorf("expected pauses that grow, but found %s", got)
	}
	// Writes: pick-up, finalizer, and one for each error. Events: one for all errors.
	if b.n != 6 || len(b.events.Events) != 1 {
		t.Errorf("expected one event for the errors, but found %d writes and %d events", b.n, len(b.events.Events))
	}
	status := b.read().Status
	if len(status.LastErrors) != 1 || status.LastErrors[0].Message != "Refused (4 times)" ||
		status.LastError.Message != "Refused" {
		t.Errorf("expected one error, counted four times, but found %+v", status.LastErrors)
	}
	b.answer = succeeds
	b.expectSuccess(jobID)
}

// Rule (deploy-items.md#errors): An error that names a pause is tried again after it.
func TestErrorsAskForAPause(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout     v1alpha1.Duration
		asked, want time.Duration
		shown       string
	}{
		"longer than the host's":    {"none", 5 * time.Minute, 5 * time.Minute, " in 5m0s, as asked for"},
		"shorter than the host's":   {"none", time.Millisecond, time.Second, ""},
		"longer than its bound":     {"none", 2 * time.Hour, time.Hour, " in 1h0m0s, as asked for"},
		"longer than the job lasts": {"3m", time.Hour, 3 * time.Minute, " in 1h0m0s, as asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			outcome, err := fails("Throttled")
			outcome.Errors[0].RetryAfter = tc.asked
			b := newBench(t, always(outcome, err), func(i *v1alpha1.DeployItem) { i.Spec.Timeout = tc.timeout })
			b.setJob()
			pause := b.reconcile(t.Context())
			if pause.Round(2*time.Second) != tc.want.Round(2*time.Second) {
				t.Errorf("expected a pause of %s, but found %s", tc.want, pause)
			}
			want := "another try" + tc.shown + ", after: Throttled"
			if reconciling(b.read()) != want {
				t.Errorf("expected %q, but found %s", want, describe(b.read()))
			}
		})
	}
}

// TestRefusedOutcome: a result that breaks the protocol must not keep its job from coming to an end, nor from saying
// what is wrong; TestFlaws has such results. Its provider status is saved.
func TestRefusedOutcome(t *testing.T) {
	outcome := &plugin.Outcome{
		Succeeded: &plugin.Succeeded{Exports: []byte(`["a"]`)}, ProviderStatus: []byte(providerStatus),
		Flaws: []hostside.Flaw{{Text: "exports: expected a JSON object", Refused: true}},
	}
	b := newBench(t, always(outcome, nil), func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "10s" })
	b.setJob()
	b.reconcile(t.Context())
	item := b.expectPhase(v1alpha1.DeployItemPhaseProgressing)
	e := item.Status.LastError
	if e == nil || e.Reason != "PluginProtocolError" || rawStatus(item) != providerStatus {
		t.Errorf("expected another try, but found %s (errors %.200s)", describe(item), fmt.Sprint(b.errs))
	}
	b.clock.Step(time.Second)
	b.driveTo(v1alpha1.DeployItemPhaseFailed)
}
