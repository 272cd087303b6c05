package contract

import (
	"fmt"
	"regexp"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Progress changes the phase to a running job.
func Progress(item *v1alpha1.DeployItem) {
	if item.Status.Phase.IsDeletion() {
		item.Status.Phase = v1alpha1.DeployItemPhaseDeleting
		return
	}
	item.Status.Phase = v1alpha1.DeployItemPhaseProgressing
}

// Step shows in the status the current step of a running call. step is a short name and becomes the reason of the
// condition if it is a valid one; message is a sentence about it.
func Step(item *v1alpha1.DeployItem, step, message string, now time.Time) {
	Progress(item)
	if !reasonPattern.MatchString(step) {
		step = reasonProgressing
	}
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, step, message, now)
	if ready := condition(&item.Status, ConditionReady); ready != nil && ready.Reason == reasonWaiting {
		setCondition(&item.Status, ConditionReady, v1alpha1.ConditionUnknown, reasonProgressing, messageUnderWay, now)
	}
}

// reasonPattern is the pattern of Kubernetes for the reasons of conditions.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$`)

// Wait shows in the status the wait of a running job. Ready shows it, too, because kubectl get prints its reason.
func Wait(item *v1alpha1.DeployItem, waitingFor string, now time.Time) {
	Progress(item)
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonWaiting, waitingFor, now)
	setCondition(&item.Status, ConditionReady, v1alpha1.ConditionUnknown, reasonWaiting, waitingFor, now)
}

// Retry shows in the status an error of a running job and its retry. It reports whether the error differs from the last
// one.
func Retry(item *v1alpha1.DeployItem, e Error, now time.Time) (changed bool) {
	Progress(item)
	message := "another try, after: " + e.Message
	if e.RetryAfter > 0 {
		message = fmt.Sprintf("another try in %s, as asked for, after: %s", e.RetryAfter, e.Message)
	}
	setCondition(&item.Status, ConditionReconciling, v1alpha1.ConditionTrue, reasonRetrying, message, now)
	return RecordError(item, e, now)
}
