package hostside

import (
	"errors"
	"slices"
	"strings"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Outcome is the end of an operation. Exactly one of Succeeded, InProgress and Errors is set.
type Outcome struct {
	Succeeded  *Succeeded
	InProgress *sdk.InProgress
	Errors     []Error
	// ProviderStatus to save together with the outcome; nil keeps the last one. Without a flaw of its own it is valid.
	ProviderStatus []byte
	// Conditions to set together with the outcome.
	Conditions []sdk.Condition
	// Flaws of the result.
	Flaws []Flaw
}

// Succeeded is the outcome of a job that is done.
type Succeeded struct {
	// Exports as a JSON object; nil for none.
	Exports []byte
}

// Error is one reason of a failure, or why the host cannot answer a question.
type Error struct {
	Codes                      []v1alpha1.ErrorCode
	Operation, Reason, Message string
	// TargetSilent: the item's target did not answer, or asked for a pause.
	TargetSilent bool
	// RetryAfter is the least pause before the next try; zero for any.
	RetryAfter time.Duration
	// Heals: the cause may end without a change of the item although the codes end the job.
	Heals bool
	// Held is what the item needs and another one holds; the zero value for nothing.
	Held sdk.Claim
}

// Error returns the message.
func (e Error) Error() string { return e.Message }

const (
	// maxErrors bounds the errors of an outcome, and the codes of each.
	maxErrors = 16
	// maxConditionReason is the limit of Kubernetes.
	maxConditionReason = 256
)

// ReadResult reads the end of an operation. An outcome with a flaw is used as Outcome.Flaws says; the error is for a
// result without one.
func ReadResult(r *deployerv1.Result) (*Outcome, error) {
	out := &Outcome{ProviderStatus: nilIfEmpty(r.GetProviderStatus())}
	var conditions flaws
	var refused error
	out.Conditions, refused = conditions.readConditions(r.GetConditions())
	out.repaired(PartConditions, conditions)
	out.refuse(PartConditions, refused)
	if out.ProviderStatus != nil {
		if err := CheckProviderStatus(out.ProviderStatus); err != nil {
			out.refuse(PartProviderStatus, err)
			out.ProviderStatus = nil
		}
	}
	var found flaws
	switch outcome := r.GetOutcome().(type) {
	case *deployerv1.Result_Succeeded:
		out.Succeeded = &Succeeded{Exports: nilIfEmpty(outcome.Succeeded.GetExports())}
		out.refuse(PartOutcome, checkExports(out.Succeeded.Exports))
	case *deployerv1.Result_InProgress:
		out.InProgress = &sdk.InProgress{
			PollAfter:  found.pause("the pause until the next call", outcome.InProgress.GetPollAfter().AsDuration()),
			WaitingFor: found.bounded("the awaited event", outcome.InProgress.GetWaitingFor()),
		}
		if strings.TrimSpace(out.InProgress.WaitingFor) == "" {
			out.refuse(PartOutcome, errors.New("the job is in progress, but the result does not say what it waits for"))
		}
	case *deployerv1.Result_Failed:
		out.Errors, found = readFailed(outcome.Failed)
	default:
		return nil, errors.New("its result says neither succeeded, failed nor in progress")
	}
	out.repaired(PartOutcome, found)
	return out, nil
}

// refuse adds a flaw for which the host refuses the outcome, if there is an error.
func (o *Outcome) refuse(part Part, err error) {
	if err != nil {
		o.Flaws = append(o.Flaws, Flaw{Part: part, Text: err.Error(), Refused: true})
	}
}

// repaired adds flaws that are repaired.
func (o *Outcome) repaired(part Part, found flaws) {
	for _, text := range found {
		o.Flaws = append(o.Flaws, Flaw{Part: part, Text: text})
	}
}

// ReadErrors reads a failure. There is at least one error, and each has a reason and a message.
func ReadErrors(in *deployerv1.Failed) []Error {
	errs, _ := readFailed(in)
	return errs
}

// RetryAfter returns the least pause before the next try of a failed call; zero if its errors name none or end the job.
func RetryAfter(errs []Error) (pause time.Duration) {
	for _, e := range errs {
		if slices.ContainsFunc(e.Codes, v1alpha1.ErrorCode.EndsJob) {
			return 0
		}
		pause = max(pause, e.RetryAfter)
	}
	return pause
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
