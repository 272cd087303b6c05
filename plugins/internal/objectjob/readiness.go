package objectjob

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// CheckReadiness judges the objects as they were just applied or read.
func (j *Job) CheckReadiness(
	ctx context.Context, checks readiness.Checks, applied []apply.Applied,
) (*sdk.Response, error) {
	objects := make([]readiness.Object, 0, len(applied))
	for _, a := range applied {
		objects = append(objects, a.ToJudge())
	}
	verdict, err := checks.Run(ctx, objects, j.done, j.Lookup, j.Began)
	switch {
	case len(verdict.Failed) > 0:
		j.noteUndone(applied)
		// A failed object does not recover by itself: it is useless to wait for it until the timeout of the job.
		return j.End(), job.During(StepReadiness, &sdk.Error{
			Codes:  []landscaper.ErrorCode{landscaper.ErrorNoRetry},
			Reason: apply.ReasonFailed,
			Err:    errors.New(object.Enumerate(verdict.Failed, "; ", job.MaxListed)),
		})
	case err != nil:
		return j.End(), job.During(StepReadiness, err)
	case len(verdict.Waiting) > 0:
		return j.Wait(StepReadiness, "", verdict.Waiting, append(j.Seen(applied), verdict.Seen...)), nil
	default:
		for _, a := range applied {
			if !completion.NeedNotStay(a.Live) {
				j.ready = append(j.ready, watch.SeenOf(j.Client, a.Mapping, a.Key, a.Live))
			}
		}
		return nil, nil //nolint:nilnil // see Job
	}
}

// noteUndone removes the completion of all objects still able to fail, and of the failed ones: the next job tries
// again, even if a hook asked for it.
func (j *Job) noteUndone(applied []apply.Applied) {
	for _, a := range applied {
		if !completion.IsComplete(a.Live) {
			j.Status.Inventory.Done(a.Key, "")
		}
	}
}

// ReadExports reads the values to export.
func (j *Job) ReadExports(
	ctx context.Context, values []export.Value, applied []apply.Applied,
) (map[string]any, *sdk.Response, error) {
	if len(values) == 0 {
		return nil, nil, nil
	}
	j.Request.Progress(StepExport, fmt.Sprintf("reading values to export: %d", len(values)))
	result, err := export.Read(ctx, j.Client, values, liveOf(applied), j.Lookup, j.Began)
	if err != nil {
		return nil, j.End(), job.During(StepExport, err)
	}
	if len(result.Waiting) > 0 {
		return nil, j.Wait(StepExport, "", result.Waiting, append(j.Seen(applied), result.Seen...)), nil
	}
	return result.Exports, nil, nil
}

func liveOf(applied []apply.Applied) []*unstructured.Unstructured {
	live := make([]*unstructured.Unstructured, 0, len(applied))
	for _, a := range applied {
		live = append(live, a.Live)
	}
	return live
}
