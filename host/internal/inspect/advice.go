package inspect

import (
	"slices"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Advice says what to do about the last error of an item, beside what its message says; empty if there is none.
func Advice(item *v1alpha1.DeployItem) string {
	last := item.Status.LastError
	if last == nil || item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded {
		return ""
	}
	if !contract.Finished(item) {
		return "nothing: the job goes on, and tries again until its time is up"
	}
	lacks := contract.FailedForLack(item)
	switch {
	case lacks && item.DeletionTimestamp == nil:
		return "create what is missing; a host with --standalone sets a new job then, and otherwise so does items trigger"
	case lacks:
		return "create what is missing, and the deletion goes on by itself; or let the item go without what it has deployed: " + leaveBehind
	case item.DeletionTimestamp == nil:
		return adviceFor(last)
	}
	return adviceFor(last) + "; or let the item go without what it has deployed: " + leaveBehind
}

const leaveBehind = "annotate it with " + v1alpha1.DeleteWithoutUninstallAnnotation + "=true"

// adviceFor says what to do about an error that has ended a job.
func adviceFor(e *v1alpha1.Error) string {
	has := func(code v1alpha1.ErrorCode) bool { return slices.Contains(e.Codes, code) }
	switch {
	case e.Reason == contract.ReasonPluginCrashed:
		return "look into the log of the host for the last words of the plugin; a new job tries it again"
	case has(v1alpha1.ErrorConfigurationProblem):
		return "correct what the message names; a change of the item brings a new job where Pergola or Landscaper sets them, and so does items trigger"
	case has(v1alpha1.ErrorUnauthorized):
		return "correct the credentials that the message is about, or give them the rights that it names, then have a new job with items trigger"
	case has(v1alpha1.ErrorTimeout):
		return "look at what it was waiting for with items tree; if it only needs longer, raise spec.timeout; then have a new job with items trigger"
	case has(v1alpha1.ErrorInternalProblem):
		return "look into the log of the host; a new job, with items trigger, tries it again"
	default:
		return "fix what the message says, then have a new job with items trigger"
	}
}
