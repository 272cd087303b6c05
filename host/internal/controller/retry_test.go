package controller

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// Rule (deploy-items.md#next-tries): For its deployer, a try continues the failed job.
func TestTryContinuesJob(t *testing.T) {
	pauses := contract.Pauses{First: time.Minute, Longest: time.Hour}
	var jobs []string
	b := newBench(t, nil)
	b.plugin.OnCall = func(
		_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer,
	) (*plugin.Outcome, error) {
		jobs = append(jobs, c.JobID)
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
