package move

import (
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// answer is an answer of the plugin, as far as it matters for a move.
type answer string

const (
	// succeeded: the deployment, or the removal, is done.
	succeeded answer = "succeeded"
	// otherCluster: the Target of the call leads to another cluster than before.
	otherCluster answer = "other cluster"
	// unfinished: anything else.
	unfinished answer = "unfinished"
)

// decide returns the state after an answer in a state. from is the name of the old Target, and named is the name in the
// annotation, empty for none fit for a move. again reports whether the job goes on in the new state: otherwise the
// answer is that of a job without a move.
func decide(s State, a answer, from, named string, order Order) (next State, again bool) {
	begins := s == Still || s == TakenBack || s == Reversing // a move can begin
	switch {
	case begins && a == otherCluster && named != "":
		if order == DeployFirst {
			return Deploying, true
		}
		return Removing, true
	case begins && s != Still && a == succeeded:
		return TakenBack, true
	case s == Deploying && a == succeeded:
		return Removing, true
	case s == Deploying && a == otherCluster: // a third one: a second move begins after the end of this one
		return Removing, true
	case s == Removing && a == succeeded:
		return Still, true
	case s == Removing && a == otherCluster && named != "" && named != from: // the user has corrected the annotation
		return Removing, true
	default:
		return s, false
	}
}

// Step is the next step of a move.
type Step struct {
	// Change is to be written together with the outcome. Without a step of the move it changes nothing.
	Change func(*v1alpha1.DeployItem)
	// From is the name of an old Target that was not used yet; empty for none.
	From string
}

// After returns the step after the outcome of a call in a state, and the outcome of the job: a job with another step of
// its move goes on. begins allows a move to begin; one under way always goes on.
func After(
	s State, item *v1alpha1.DeployItem, outcome *plugin.Outcome, begins bool, now time.Time,
) (*plugin.Outcome, Step) {
	from := From(item)
	named, order, _ := annotated(item)
	a := answerOf(outcome)
	if s == Still && (!begins || item.Status.ProviderStatus == nil) {
		named = ""
	}
	next, again := decide(s, a, from, named, order)
	if !again {
		return explained(s, item, outcome, begins), Step{Change: func(*v1alpha1.DeployItem) {}}
	}
	step := Step{}
	if a == otherCluster && s != Deploying {
		from, step.From = named, named
	}
	step.Change = enter(s, next, from, now)
	goesOn := fmt.Sprintf("the next step: "+messages[next], from)
	return &plugin.Outcome{
		ProviderStatus: outcome.ProviderStatus, Conditions: outcome.Conditions,
		InProgress: &plugin.InProgress{WaitingFor: goesOn, PollAfter: time.Nanosecond},
	}, step
}

func answerOf(outcome *plugin.Outcome) answer {
	switch {
	case outcome.Succeeded != nil:
		return succeeded
	case slices.ContainsFunc(outcome.Errors, isOtherCluster):
		return otherCluster
	default:
		return unfinished
	}
}

func isOtherCluster(e plugin.Error) bool { return e.Reason == sdk.ReasonTargetChanged }

// annotated returns the name of the old Target and the order in the annotations of an item; empty if they are not fit
// for a move. The error is about the order.
func annotated(item *v1alpha1.DeployItem) (from string, order Order, err error) {
	from, order = item.Annotations[FromAnnotation], RemoveFirst
	if value, set := item.Annotations[OrderAnnotation]; set {
		if order, err = ParseOrder(value); err != nil {
			return "", "", fmt.Errorf("annotation %s: %w", OrderAnnotation, err)
		}
	}
	own, _ := contract.TargetOfItem(item)
	ended := fmt.Sprintf(messages[Still], from)
	if c := conditionOf(item); from == own || c != nil && c.Message == ended { // the annotation is about an earlier move
		return "", order, nil
	}
	return from, order, nil
}

// ParseOrder returns the order of this name.
func ParseOrder(name string) (Order, error) {
	if o := Order(name); o == RemoveFirst || o == DeployFirst {
		return o, nil
	}
	return "", fmt.Errorf("expected %s or %s, but found %q", RemoveFirst, DeployFirst, name)
}

// explained returns an outcome of a job without another step of a move, with errors for users: those about another
// cluster have the way to a move, and those of the old cluster say so. The item's own target has nothing to do with
// these.
func explained(s State, item *v1alpha1.DeployItem, outcome *plugin.Outcome, begins bool) *plugin.Outcome {
	if len(outcome.Errors) == 0 {
		return outcome
	}
	out := *outcome
	out.Errors = slices.Clone(outcome.Errors)
	for i := range out.Errors {
		e := &out.Errors[i]
		if isOtherCluster(*e) && (begins || s != Still) {
			e.Message += advice(item)
		}
		if s.Removes() {
			e.Message = fmt.Sprintf("removal from the Target %q: %s", From(item), e.Message)
			e.TargetSilent = false
		}
	}
	return &out
}

// advice says how to move an item.
func advice(item *v1alpha1.DeployItem) string {
	if _, _, err := annotated(item); err != nil {
		return "; it does not move: " + err.Error()
	}
	return fmt.Sprintf("; to move it, name another Target that leads to the cluster before in the annotation %s, "+
		"as `pergola items move %s --from TARGET` does", FromAnnotation, item.Name)
}
