package helmjob

import (
	"errors"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// explain returns an error of Helm as one of a job. Errors of the item, its chart or its values would come again; all
// others are retried.
func explain(step, host string, failure *helm.Error) error {
	out := &sdk.Error{Operation: step, Reason: string(failure.Kind), Err: errors.New(failure.Message)}
	switch failure.Kind {
	case helm.ChartInvalid, helm.ValuesInvalid, helm.RenderFailed, helm.LimitExceeded, helm.Rejected, helm.OwnedByOthers:
		out.Codes = []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}
		out.Heals = failure.Kind == helm.Rejected || failure.Kind == helm.OwnedByOthers
	case helm.ChartHookFailed:
		// Each try would run the hook anew, in vain with the same chart.
		out.Codes = []landscaper.ErrorCode{landscaper.ErrorNoRetry}
	case helm.Unauthorized:
		out.Codes, out.Reason = []landscaper.ErrorCode{landscaper.ErrorUnauthorized}, target.ReasonUnauthorized
		out.Err = errors.New(host + ": " + failure.Message)
	case helm.Unreachable:
		out.Err, out.TargetSilent = errors.New("target cluster "+host+": "+failure.Message), true
	case helm.TimedOut:
		out.Codes = []landscaper.ErrorCode{landscaper.ErrorTimeout}
	case helm.Pending, helm.Refused, helm.ClusterFailed, helm.Crashed:
	}
	return out
}
