package plugin

import (
	"fmt"
	"strings"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Outcome is how a call ended. Exactly one of Succeeded, InProgress and Errors is set.
type Outcome struct {
	Succeeded  *Succeeded
	InProgress *InProgress
	Errors     []Error
	// ProviderStatus to save together with the outcome; nil leaves what was saved last.
	ProviderStatus []byte
	// Conditions to set together with the outcome, as the plugin gives them but for the length of their texts; see
	// contract.CheckReported.
	Conditions []sdk.Condition
}

// Succeeded says that the job is done.
type Succeeded struct {
	// Exports as a JSON object; nil if there are none.
	Exports []byte
}

// InProgress says that the job goes on.
type InProgress struct {
	// PollAfter is when the plugin wants to be called again at the latest; zero leaves it to the host.
	PollAfter time.Duration
	// WaitingFor is a sentence for the user.
	WaitingFor string
}

// Error is one reason why a call failed, or why the host cannot give the plugin what it asks for.
type Error struct {
	Codes                      []v1alpha1.ErrorCode
	Operation, Reason, Message string
	// TargetSilent: the item's target did not answer, or wants to be left alone.
	TargetSilent bool
	// RetryAfter is the least pause before the next try; zero for any.
	RetryAfter time.Duration
}

// Error returns the message.
func (e Error) Error() string { return e.Message }

const (
	// maxMessage bounds the texts of a plugin that end up in the status of an object.
	maxMessage = 8 << 10
	// maxErrors bounds the errors of an outcome, and the codes of each, for the same reason.
	maxErrors = 16
	// maxConditionReason is as long as Kubernetes lets the reason of a condition be.
	maxConditionReason = 256
)

func outcomeFromWire(r *deployerv1.Result) (*Outcome, error) {
	out := &Outcome{ProviderStatus: nilIfEmpty(r.GetProviderStatus()), Conditions: conditionsFromWire(r.GetConditions())}
	switch outcome := r.GetOutcome().(type) {
	case *deployerv1.Result_Succeeded:
		out.Succeeded = &Succeeded{Exports: nilIfEmpty(outcome.Succeeded.GetExports())}
	case *deployerv1.Result_InProgress:
		out.InProgress = &InProgress{
			PollAfter:  outcome.InProgress.GetPollAfter().AsDuration(),
			WaitingFor: bounded(outcome.InProgress.GetWaitingFor()),
		}
	case *deployerv1.Result_Failed:
		out.Errors = errorsFromWire(outcome.Failed.GetErrors())
	default:
		return nil, fmt.Errorf("%w: its result says neither succeeded, failed nor in progress", ErrProtocol)
	}
	return out, nil
}

func conditionsFromWire(in []*deployerv1.Condition) []sdk.Condition {
	var out []sdk.Condition
	for _, c := range in {
		out = append(out, sdk.Condition{
			Type: v1alpha1.ConditionType(cut(c.GetType(), maxText)), Status: v1alpha1.ConditionStatus(cut(c.GetStatus(),
				maxText)),
			Reason: cut(c.GetReason(), maxConditionReason), Message: bounded(c.GetMessage()),
		})
	}
	return out
}

func errorsFromWire(in []*deployerv1.Error) []Error {
	in = in[:min(len(in), maxErrors)]
	out := make([]Error, 0, max(len(in), 1))
	for _, e := range in {
		converted := Error{
			Operation: cut(e.GetOperation(), maxText),
			Reason:    cut(e.GetReason(), maxText),
			Message:   bounded(e.GetMessage()), TargetSilent: e.GetTargetSilent(), RetryAfter: e.GetRetryAfter().AsDuration(),
		}
		codes := e.GetCodes()
		for _, code := range codes[:min(len(codes), maxErrors)] {
			converted.Codes = append(converted.Codes, v1alpha1.ErrorCode(cut(code, maxText)))
		}
		out = append(out, converted)
	}
	if len(out) == 0 {
		out = append(out, Error{Reason: "DeployerError", Message: "the deployer failed without saying why"})
	}
	return out
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// bounded cuts a text that would make an object too large, and says so.
func bounded(text string) string { return cut(text, maxMessage) }

// cut returns valid UTF-8, as everything must be that goes to the API server.
func cut(text string, size int) string {
	if len(text) > size {
		text = text[:size] + " … (cut)"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
