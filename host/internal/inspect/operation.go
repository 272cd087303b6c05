package inspect

import (
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Execution is what sets the jobs of an item, beside a Landscaper. The zero value is none.
type Execution struct {
	// Name in the namespace of the item.
	Name string
	// UnderWay: it works on a job of its own, and gives its items theirs.
	UnderWay bool
}

// Prospect is what comes of asking an item for an operation.
type Prospect struct {
	// Refusal says why it makes no sense; empty if it does.
	Refusal string
	// Asked: somebody asks for it already, so that nothing is to be written.
	Asked bool
	// Next says what happens then.
	Next string
}

// Ask tells what would come of asking an item for an operation.
func Ask(item *v1alpha1.DeployItem, operation string, execution Execution, now time.Time) Prospect {
	asked := item.Annotations[v1alpha1.OperationAnnotation]
	refusal := refusalOf(item, operation, execution, now)
	switch unserved := contract.Unserved(item); {
	case unserved != "" && operation != v1alpha1.OperationAbort:
		refusal = unserved
	case asked == operation:
		return Prospect{Asked: true, Next: next(item, operation, now)}
	case asked != "":
		refusal = fmt.Sprintf("it asks for %q already, and that is not taken up yet; wait for it, or remove the annotation %s",
			asked, v1alpha1.OperationAnnotation)
	}
	if refusal != "" {
		return Prospect{Refusal: refusal}
	}
	return Prospect{Next: next(item, operation, now)}
}

func refusalOf(item *v1alpha1.DeployItem, operation string, execution Execution, now time.Time) string {
	finished := item.Status.JobID == item.Status.JobIDFinished
	aborting := aborts(item, now)
	switch {
	case operation != v1alpha1.OperationAbort && execution.UnderWay:
		return fmt.Sprintf("its execution %q is at work and would put its own job in the place of this one; wait until the execution is finished, or abort",
			execution.Name)
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
	if item.Annotations[v1alpha1.OperationAnnotation] != "" {
		item = item.DeepCopy()
		delete(item.Annotations, v1alpha1.OperationAnnotation)
	}
	action := contract.Decide(item, now).Action
	return action == contract.Abort || action == contract.GiveUp
}

// next says what happens when an item is asked for an operation.
func next(item *v1alpha1.DeployItem, operation string, now time.Time) string {
	if operation == v1alpha1.OperationAbort {
		return nextOfAbort(item)
	}
	asking := item.DeepCopy()
	asking.Annotations = map[string]string{contract.AcceptedAnnotation: item.Annotations[contract.AcceptedAnnotation], v1alpha1.OperationAnnotation: operation}
	begins := contract.Decide(asking, now).Action == contract.Accept
	finished := item.Status.JobID == item.Status.JobIDFinished
	forced := operation == v1alpha1.OperationForceReconcile
	what := "a new job"
	switch {
	case item.DeletionTimestamp != nil:
		what = "a new job that deletes"
	case forced:
		what = "a new job, by force,"
	}
	switch {
	case !begins:
		return what + " begins when the one under way has ended"
	case forced && !finished:
		return "the job under way goes on by force, and its running call is cancelled"
	default:
		return what + " begins when a host sees this"
	}
}

func nextOfAbort(item *v1alpha1.DeployItem) string {
	phase := v1alpha1.DeployItemPhaseFailed
	if item.DeletionTimestamp != nil {
		phase = v1alpha1.DeployItemPhaseDeleteFailed
	}
	if contract.IsUnderWay(item) && !contract.IsQueued(item) {
		return fmt.Sprintf("its running call is cancelled, and the job ends as %s; a deployer that can abort gets the time for it", phase)
	}
	return fmt.Sprintf("the job ends as %s before its deployer begins with it", phase)
}
