package run

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/input"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The steps of a job in its progress and its errors.
const (
	stepStart  = "StartPod"
	stepRun    = "RunPod"
	stepStop   = "StopPod"
	stepExport = "Export"
	stepRemove = "Remove"
)

// Runner has the means of all runs.
type Runner struct {
	Settings config.Settings
	Input    input.Source
	Clusters *target.Cache
	Watches  *watch.Set
	Now      func() time.Time
}

// Job is one call for a run. Its methods return a response if the job cannot go on in this call, and nil if it can.
type Job struct {
	*job.Job

	runner   *Runner
	identity pod.Identity
	place    v1alpha1.Place
	status   *v1alpha1.ProviderStatus
	// result is the result of the run, if read in this call after the end of the run.
	result *pod.Result
}

// Unsaved implements job.Record. There is no status before the first run.
func (j *Job) Unsaved() any {
	if j.status.Run == nil {
		return nil
	}
	return j.status
}

// Conditions implements job.Record: a run has none.
func (j *Job) Conditions(bool) []sdk.Condition { return nil }

// begun reports whether the run of this job is the one noted last.
func (j *Job) begun() bool {
	return j.status.Run != nil && j.status.Run.Name == j.identity.RunName()
}

// save saves the status now, and not only with the response. It fails if the host's copy of the item is old.
func (j *Job) save(ctx context.Context) error { return j.Request.SaveProviderStatus(ctx, j.status) }

// note saves the outcome of the run noted last, with the reason of a failure. Nothing of the run may be removed
// before.
func (j *Job) note(ctx context.Context, outcome v1alpha1.Outcome, why *pod.Failure) error {
	r := j.status.Run
	r.Outcome, r.Reason, r.Message, r.Codes = outcome, why.Reason, why.Message, why.Codes
	if outcome == v1alpha1.OutcomeSucceeded && j.status.PodStatus != nil {
		j.status.PodStatus.LastSuccessfulJobID = r.JobID
	}
	return j.save(ctx)
}

// upload returns the instructions for the run's wait container.
func (j *Job) upload() *layout.Upload {
	limits := &j.runner.Settings.Limits
	return j.identity.Upload(limits.State.Bytes, limits.Exports.Bytes)
}

func (j *Job) now() time.Time { return j.runner.Now() }

// noRetry returns an error for the end of the job: another try would have the same result, or repeat something.
func noRetry(step, reason string, err error) error {
	return &sdk.Error{Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Operation: step, Reason: reason, Err: err}
}
