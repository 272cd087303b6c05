package hostside

import (
	"errors"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Outcome is the end of an operation. Exactly one of Succeeded, InProgress and Errors is set.
type Outcome struct {
	Succeeded  *Succeeded
	InProgress *sdk.InProgress
	Errors     []Error
	// ProviderStatus to save together with the outcome; nil keeps the last one.
	ProviderStatus []byte
	// Conditions to set together with the outcome. Only the length of their texts is checked; see sdk.CheckConditions.
	Conditions []sdk.Condition
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

// ReadResult reads the end of an operation.
func ReadResult(r *deployerv1.Result) (*Outcome, error) {
	out := &Outcome{
		ProviderStatus: nilIfEmpty(r.GetProviderStatus()),
		Conditions: wire.Each(r.GetConditions(), func(c *deployerv1.Condition) sdk.Condition {
			return sdk.Condition{
				Type:    v1alpha1.ConditionType(name(c.GetType())),
				Status:  v1alpha1.ConditionStatus(name(c.GetStatus())),
				Reason:  Cut(c.GetReason(), maxConditionReason),
				Message: Bounded(c.GetMessage()),
			}
		}),
	}
	switch outcome := r.GetOutcome().(type) {
	case *deployerv1.Result_Succeeded:
		out.Succeeded = &Succeeded{Exports: nilIfEmpty(outcome.Succeeded.GetExports())}
	case *deployerv1.Result_InProgress:
		out.InProgress = &sdk.InProgress{
			PollAfter:  outcome.InProgress.GetPollAfter().AsDuration(),
			WaitingFor: Bounded(outcome.InProgress.GetWaitingFor()),
		}
	case *deployerv1.Result_Failed:
		out.Errors = ReadErrors(outcome.Failed)
	default:
		return nil, errors.New("its result says neither succeeded, failed nor in progress")
	}
	return out, nil
}

// ReadErrors reads a failure. There is at least one error.
func ReadErrors(in *deployerv1.Failed) []Error {
	if len(in.GetErrors()) == 0 {
		return []Error{{Reason: sdk.ReasonError, Message: "the deployer failed without saying why"}}
	}
	return wire.Each(in.GetErrors()[:min(len(in.GetErrors()), maxErrors)], readError)
}

func readError(in *deployerv1.Error) Error {
	codes := in.GetCodes()
	return Error{
		Codes: wire.Each(codes[:min(len(codes), maxErrors)], func(code string) v1alpha1.ErrorCode {
			return v1alpha1.ErrorCode(name(code))
		}),
		Operation:    name(in.GetOperation()),
		Reason:       name(in.GetReason()),
		Message:      Bounded(in.GetMessage()),
		TargetSilent: in.GetTargetSilent(),
		RetryAfter:   in.GetRetryAfter().AsDuration(),
		Heals:        in.GetHeals(),
		Held:         sdk.Claim{DeployItem: name(in.GetHeld().GetDeployItem()), What: name(in.GetHeld().GetWhat())},
	}
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
