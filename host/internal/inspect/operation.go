package inspect

import (
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Refusal says why asking an item for an operation makes no sense; empty if it does. An item that is asked for the operation already is not
// refused. execution is the name of the Execution of a Landscaper that works on the item; empty for none.
func Refusal(item *v1alpha1.DeployItem, operation, execution string, now time.Time) string {
	asked := item.Annotations[v1alpha1.OperationAnnotation]
	switch unserved := contract.Unserved(item); {
	case unserved != "" && operation != v1alpha1.OperationAbort:
		return unserved
	case asked == operation:
		return ""
	case asked != "":
		return fmt.Sprintf("it asks for %q already, and that is not taken up yet; wait for it, or remove the annotation %s",
			asked, v1alpha1.OperationAnnotation)
	default:
		return refusalOf(item, operation, execution, now)
	}
}

func refusalOf(item *v1alpha1.DeployItem, operation, execution string, now time.Time) string {
	finished := contract.Finished(item)
	aborting := aborts(item, now)
	switch {
	case operation != v1alpha1.OperationAbort && execution != "":
		return fmt.Sprintf("its execution %q is at work and would put its own job in the place of this one; wait until the execution is finished, or abort",
			execution)
	case operation == v1alpha1.OperationAbort && finished && item.Status.JobID == "":
		return "it has no job to abort: there was none yet"
	case operation == v1alpha1.OperationAbort && finished:
		return fmt.Sprintf("it has no job to abort: the last one is finished, with phase %s", item.Status.Phase)
	case operation == v1alpha1.OperationAbort && aborting:
		return "its job is being aborted already"
	case operation == v1alpha1.OperationForceReconcile && !finished && aborting:
		return "its job is being aborted; wait for its end"
	default:
		return ""
	}
}

// aborts tells whether the job of an item is being aborted.
func aborts(item *v1alpha1.DeployItem, now time.Time) bool {
	action := contract.Decide(item, now).Action
	return action == contract.Abort || action == contract.GiveUp
}
