package conformance

import (
	"encoding/json"
	"fmt"
	"strings"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Result is the end of a call, and the messages before it. Exactly one of Succeeded, Failed, InProgress and Err is set.
type Result struct {
	// Succeeded: the job is done.
	Succeeded *Succeeded
	// Failed: the deployer returned an error.
	Failed *Failed
	// InProgress: the job goes on.
	InProgress *sdk.InProgress
	// Err is the reason for an end without a result: the call was cancelled (and Err wraps the cause of its context),
	// the plugin does not have the method or refused the request, or it broke off.
	Err error

	// ProviderStatus of the deploy item after the call: from the result, or else the last saved one, or else the one
	// before the call.
	ProviderStatus json.RawMessage
	// Conditions of the result.
	Conditions []sdk.Condition
	// Messages before the result, in order.
	Messages []Message
}

// Succeeded is the result of a finished job.
type Succeeded struct {
	// Exports are the exported values; nil for none. Numbers are of type json.Number.
	Exports map[string]any
}

// Failed is the result of a failed call.
type Failed struct { //nolint:errname // it is first of all the result of a call, beside Succeeded and InProgress
	// Errors say why.
	Errors []Error
}

// Error lists the errors.
func (f *Failed) Error() string {
	return strings.Join(wire.Each(f.Errors, func(e Error) string {
		return fmt.Sprintf("%s: %s: %s %v", e.Operation, e.Reason, e.Message, e.Codes)
	}), "; ")
}

// Codes returns the codes of all errors.
func (f *Failed) Codes() []v1alpha1.ErrorCode {
	var codes []v1alpha1.ErrorCode
	for _, e := range f.Errors {
		codes = append(codes, e.Codes...)
	}
	return codes
}

// Error is one error as the host gets it.
type Error = hostside.Error

// Message is one message of the deployer during a call. Exactly one field is set.
type Message struct {
	// Progress is the current step.
	Progress *Progress
	// ProviderStatus to save.
	ProviderStatus json.RawMessage
	// PickUp is the request to pick the job up, see sdk.Request.PickUp.
	PickUp bool
	// Event is a Kubernetes event.
	Event *Event
	// ResolveTarget is the name of a Target in a question.
	ResolveTarget string
	// ResolveSecret is namespace/name of a Secret in a question for credentials.
	ResolveSecret string
	// Heartbeat is a sign of life.
	Heartbeat bool
}

// Progress is the current step of a deployer.
type Progress struct {
	Step, Message string
}

// Event is a Kubernetes event of the deploy item.
type Event struct {
	// Warning is the type of the event.
	Warning         bool
	Reason, Message string
}

// String describes the end of the call, for the message of a test.
func (r *Result) String() string {
	switch {
	case r.Succeeded != nil:
		return fmt.Sprintf("succeeded with exports %v", r.Succeeded.Exports)
	case r.Failed != nil:
		return fmt.Sprintf("failed: %s", r.Failed.Error())
	case r.InProgress != nil:
		return fmt.Sprintf("in progress, waiting for %q, to be called again after %s at the latest",
			r.InProgress.WaitingFor, r.InProgress.PollAfter)
	default:
		return fmt.Sprintf("ended without a result: %v", r.Err)
	}
}

// names returns texts as those of another type.
func names[Name ~string](in []string) []Name {
	return wire.Each(in, func(s string) Name { return Name(s) })
}

// take adds the end of a call with a result.
func (r *Result) take(end exchange.End) {
	r.Conditions, r.InProgress = end.Outcome.Conditions, end.Outcome.InProgress
	if end.Outcome.ProviderStatus != nil {
		r.ProviderStatus = end.Outcome.ProviderStatus
	}
	switch {
	case end.Outcome.Succeeded != nil:
		r.Succeeded = &Succeeded{Exports: end.Exports}
	case end.Outcome.Errors != nil:
		r.Failed = &Failed{Errors: end.Outcome.Errors}
	}
}

// messageOf reads a message, and reports whether this version of the protocol knows it.
func messageOf(m *deployerv1.PluginMessage, pickUpPending bool) (out Message, known bool) {
	switch content := m.GetContent().(type) {
	case *deployerv1.PluginMessage_Progress:
		out.Progress = &Progress{Step: content.Progress.GetStep(), Message: content.Progress.GetMessage()}
	case *deployerv1.PluginMessage_Event:
		out.Event = &Event{
			Warning: content.Event.GetWarning(), Reason: content.Event.GetReason(), Message: content.Event.GetMessage(),
		}
	case *deployerv1.PluginMessage_Heartbeat:
		out.Heartbeat = true
	case *deployerv1.PluginMessage_ProviderStatus:
		out.PickUp = pickUpPending && len(content.ProviderStatus.GetDocument()) == 0
		if !out.PickUp {
			out.ProviderStatus = content.ProviderStatus.GetDocument()
		}
	case *deployerv1.PluginMessage_ResolveTarget:
		out.ResolveTarget = content.ResolveTarget.GetName()
	case *deployerv1.PluginMessage_ResolveRegistryCredentials:
		asked := content.ResolveRegistryCredentials
		out.ResolveSecret = asked.GetNamespace() + "/" + asked.GetName()
	default:
		return out, false
	}
	return out, true
}
