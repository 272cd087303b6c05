package deployer

import (
	"errors"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// explain returns an error of Helm with what it means for a job: what the deploy item, its chart or its values are to
// blame for would fail again, everything else is tried again.
func explain(step, host string, failure *helm.Error) error {
	out := &sdk.Error{Operation: step, Reason: string(failure.Kind), Err: errors.New(failure.Message)}
	switch failure.Kind {
	case helm.ChartInvalid, helm.ValuesInvalid, helm.RenderFailed, helm.LimitExceeded, helm.Rejected, helm.OwnedByOthers:
		out.Codes = []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}
	case helm.ChartHookFailed:
		// Each try runs the hook anew, which is useless until the chart is mended.
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
