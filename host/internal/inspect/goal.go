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

// Goals are the texts that ParseGoal takes, for people.
const Goals = "succeeded, finished, deleted or condition=TYPE[=STATUS]"

// Goal is what somebody waits for: one of those below, or condition=TYPE[=STATUS].
type Goal string

// The goals without an argument.
const (
	// Succeeded: the item is deployed as it is now.
	Succeeded Goal = "succeeded"
	// Finished: nothing is left to be done for the item as it is now, whether that went well or not.
	Finished Goal = "finished"
	// Deleted: the item is gone.
	Deleted Goal = "deleted"
	// Ended: the job under way has come to its end, whatever the item needs next. ParseGoal does not know it.
	Ended Goal = "ended"
)

// ParseGoal reads a goal as a flag has it.
func ParseGoal(text string) (Goal, error) {
	goal := Goal(text)
	if conditionType, _ := goal.condition(); conditionType != "" || slices.Contains([]Goal{Succeeded, Finished, Deleted}, goal) {
		return goal, nil
	}
	return "", fmt.Errorf("expected %s, but found %q", Goals, text)
}

// condition is the condition that is waited for, and its status; empty for another goal.
func (g Goal) condition() (v1alpha1.ConditionType, v1alpha1.ConditionStatus) {
	text, found := strings.CutPrefix(string(g), "condition=")
	if !found {
		return "", ""
	}
	conditionType, status, _ := strings.Cut(text, "=")
	return v1alpha1.ConditionType(conditionType), cmp.Or(v1alpha1.ConditionStatus(status), v1alpha1.ConditionTrue)
}

// Verdict is how far an item is from a goal.
type Verdict struct {
	// Reached: there is nothing to wait for any more.
	Reached bool
	// Failed says why the goal is not reached unless somebody does something; empty as long as it may be.
	Failed string
	// Waiting says how far the item is, if the goal is neither reached nor failed.
	Waiting string
}

// Judge tells how far an item is from the goal. A nil item is one that is gone.
func (g Goal) Judge(item *v1alpha1.DeployItem, now time.Time) Verdict {
	verdict := g.judge(item, now)
	if verdict.Waiting != "" && contract.Unserved(item) != "" {
		return Verdict{Failed: contract.Unserved(item)}
	}
	return verdict
}

func (g Goal) judge(item *v1alpha1.DeployItem, now time.Time) Verdict {
	switch {
	case item == nil && (g == Deleted || g == Finished || g == Ended):
		return Verdict{Reached: true}
	case item == nil:
		return Verdict{Failed: "it is gone"}
	case strings.HasPrefix(string(g), "condition="):
		return g.judgeCondition(item)
	case item.DeletionTimestamp != nil && g == Succeeded:
		return Verdict{Failed: "it is being deleted"}
	case !Settled(item, now):
		return Verdict{Waiting: waiting(item)}
	case g == Ended:
		return Verdict{Reached: true}
	case failed(item.Status.Phase) && g != Finished && observed(item):
		return Verdict{Failed: cmp.Or(Message(item), "its job has failed")}
	case g == Deleted && item.DeletionTimestamp == nil:
		return Verdict{Waiting: "waits for its deletion, which nobody has asked for yet"}
	case g == Deleted:
		return Verdict{Waiting: "waits for its end"}
	case !observed(item):
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
	case strings.EqualFold(string(c.Status), string(status)):
		return Verdict{Reached: true}
	default:
		return Verdict{Waiting: fmt.Sprintf("waits for the condition %s, which is %s: %s", wanted, c.Status, c.Message)}
	}
}

// waiting is what an item that is not settled waits for.
func waiting(item *v1alpha1.DeployItem) string {
	phase := cmp.Or(string(item.Status.Phase), "no phase yet")
	if message := Message(item); message != "" && stateOf(item) != JobDone {
		return phase + ": " + message
	}
	if operation := item.Annotations[v1alpha1.OperationAnnotation]; operation != "" {
		return fmt.Sprintf("%s: the operation %q, which is not taken up yet", phase, operation)
	}
	return phase
}

func failed(phase v1alpha1.DeployItemPhase) bool {
	return phase == v1alpha1.DeployItemPhaseFailed || phase == v1alpha1.DeployItemPhaseDeleteFailed
}

// observed tells whether the last job was one for the item as it is now.
func observed(item *v1alpha1.DeployItem) bool {
	return item.Status.JobID != "" && item.Status.ObservedGeneration == item.Generation
}
