package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Goals lists the goals of ParseGoal.
const Goals = "succeeded, finished, deleted or condition=TYPE[=STATUS]"

// Goal is the goal of a wait: one of the constants, or condition=TYPE[=STATUS].
type Goal string

// The goals without an argument.
const (
	// Succeeded: the current item is deployed.
	Succeeded Goal = "succeeded"
	// Finished: the job for the current item has ended, with any result.
	Finished Goal = "finished"
	// Deleted: the item is gone.
	Deleted Goal = "deleted"
	// Ended: the running job has ended, even if another job is due. It is no goal of ParseGoal.
	Ended Goal = "ended"
)

// ParseGoal reads the goal of a flag.
func ParseGoal(text string) (Goal, error) {
	goal := Goal(text)
	conditionType, _ := goal.condition()
	if conditionType != "" || slices.Contains([]Goal{Succeeded, Finished, Deleted}, goal) {
		return goal, nil
	}
	return "", fmt.Errorf("expected %s, but found %q", Goals, text)
}

// condition returns type and status of a condition as goal; "" for another goal.
func (g Goal) condition() (v1alpha1.ConditionType, string) {
	text, found := strings.CutPrefix(string(g), "condition=")
	if !found {
		return "", ""
	}
	conditionType, status, _ := strings.Cut(text, "=")
	return v1alpha1.ConditionType(conditionType), cmp.Or(status, string(v1alpha1.ConditionTrue))
}

// Verdict compares an item with a goal.
type Verdict struct {
	// Reached reports whether the goal is reached.
	Reached bool
	// Failed is the reason why the goal cannot be reached without help; "" for none.
	Failed string
	// Waiting is the state of the item before the goal is reached or failed.
	Waiting string
}

// Judge compares an item with the goal. A nil item is gone.
func (g Goal) Judge(item *v1alpha1.DeployItem, now time.Time) Verdict {
	if item == nil {
		if g == Deleted || g == Finished || g == Ended {
			return Verdict{Reached: true}
		}
		return Verdict{Failed: "it is gone"}
	}
	verdict := g.judge(item, now)
	if unserved := contract.Unserved(item); verdict.Waiting != "" && unserved != "" {
		return Verdict{Failed: unserved}
	}
	return verdict
}

func (g Goal) judge(item *v1alpha1.DeployItem, now time.Time) Verdict {
	observed := item.Status.JobID != "" && item.Status.ObservedGeneration == item.Generation
	conditionType, _ := g.condition()
	switch {
	case conditionType != "":
		return g.judgeCondition(item)
	case item.DeletionTimestamp != nil && g == Succeeded:
		return Verdict{Failed: "it is being deleted"}
	case !isIdle(item, now):
		return Verdict{Waiting: waitingFor(item)}
	case g == Ended:
		return Verdict{Reached: true}
	case observed && item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded && g != Finished:
		return Verdict{Failed: cmp.Or(Message(item), "its job has failed")}
	case g == Deleted && item.DeletionTimestamp == nil:
		return Verdict{Waiting: "waits for a request to delete it"}
	case g == Deleted:
		return Verdict{Waiting: "waits for its end"}
	case !observed && isPaused(item):
		return Verdict{Waiting: fmt.Sprintf("paused before a job for its generation %d", item.Generation)}
	case !observed:
		return Verdict{Waiting: fmt.Sprintf("waits for a job for its generation %d", item.Generation)}
	default:
		return Verdict{Reached: true}
	}
}

func (g Goal) judgeCondition(item *v1alpha1.DeployItem) Verdict {
	wanted, status := g.condition()
	c := conditionOf(&item.Status, wanted)
	switch {
	case c == nil:
		return Verdict{Waiting: fmt.Sprintf("waits for the condition %s, which it does not have yet", wanted)}
	case strings.EqualFold(string(c.Status), status):
		return Verdict{Reached: true}
	default:
		return Verdict{Waiting: fmt.Sprintf("waits for the condition %s, which is %s: %s", wanted, c.Status, c.Message)}
	}
}

// isIdle reports whether the job of an item is finished, and neither requested nor about to start again.
func isIdle(item *v1alpha1.DeployItem, now time.Time) bool {
	if !contract.Finished(item) || item.Annotations[v1alpha1.OperationAnnotation] != "" {
		return false
	}
	action := contract.Decide(item, now).Action
	return action == contract.Nothing || action == contract.Restart
}

// waitingFor returns the reason for the wait of an item with a job.
func waitingFor(item *v1alpha1.DeployItem) string {
	phase := cmp.Or(string(item.Status.Phase), "no phase yet")
	if message := Message(item); message != "" && jobState(item) != jobDone {
		return phase + ": " + message
	}
	if operation := item.Annotations[v1alpha1.OperationAnnotation]; operation != "" {
		return fmt.Sprintf("%s: the operation %q, which is not taken up yet", phase, operation)
	}
	return phase
}

// Refusal returns the reason why an operation of an item is refused; "" for an allowed operation, and for a repeated
// request. execution names the busy Execution of the item; "" for none.
func Refusal(item *v1alpha1.DeployItem, operation, execution string, now time.Time) string {
	aborts := operation == v1alpha1.OperationAbort
	if unserved := contract.Unserved(item); unserved != "" && !aborts {
		return unserved
	}
	action, finished := contract.Decide(item, now).Action, contract.Finished(item)
	aborting := action == contract.Abort || action == contract.GiveUp
	switch asked := item.Annotations[v1alpha1.OperationAnnotation]; {
	case asked == operation:
		return ""
	case asked != "":
		return fmt.Sprintf("it asks for %q already, and that is not taken up yet; wait for it, or remove the annotation %s",
			asked, v1alpha1.OperationAnnotation)
	case !aborts && execution != "":
		return fmt.Sprintf("its execution %q is at work and would replace the new job; "+
			"wait until the execution is finished, or abort", execution)
	case aborts && action == contract.Start: // it withdraws the accepted operation
		return ""
	case aborts && item.Status.JobID == "":
		return "it has no job to abort: there was none yet"
	case aborts && finished:
		return fmt.Sprintf("it has no job to abort: the last one is finished, with phase %s", item.Status.Phase)
	case aborts && aborting:
		return "its job is being aborted already"
	case operation == v1alpha1.OperationForceReconcile && aborting:
		return "its job is being aborted; wait for its end"
	default:
		return ""
	}
}
