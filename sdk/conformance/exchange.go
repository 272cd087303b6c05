package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// stream is the stream of an operation, whichever it is.
type stream = grpc.BidiStreamingClient[deployerv1.HostMessage, deployerv1.PluginMessage]

// opener opens the stream of one operation.
type opener func(ctx context.Context, opts ...grpc.CallOption) (stream, error)

// errNoResult says that the plugin has ended a call without saying how.
var errNoResult = errors.New("the plugin ended the call without a result")

// exchange is one call as the host sees it.
type exchange struct {
	call    *Call
	result  *Result
	broken  func(rule Rule, message string)
	silence time.Duration // how long the plugin may say nothing

	sending  sync.Mutex // a gRPC stream takes one sender at a time
	sent     bool       // nothing more may be sent
	stream   stream
	sequence uint64
}

func (x *exchange) breaks(rule Rule, format string, args ...any) {
	x.broken(rule, fmt.Sprintf(format, args...))
}

// converse carries out one call: it sends the start message and the further ones, answers what is to be answered, and
// listens until the end. broken hears of the rules that the plugin breaks.
func (p *Plugin) converse(
	ctx context.Context, open opener, call *Call, broken func(Rule, string), further ...*deployerv1.HostMessage,
) *Result {
	x := &exchange{call: call, result: &Result{}, broken: broken, silence: p.limits.silence}
	if err := x.talk(ctx, open, further); err != nil {
		if status.Code(err) == codes.Internal && strings.Contains(err.Error(), "invalid UTF-8") {
			x.breaks(RuleTexts, "a message cannot be sent or read: %v", err)
		}
		if cause := causeOf(ctx, err); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		x.result.Err = err
	}
	return x.result
}

// causeOf says why the host has ended the call; nil if it has not. The plugin's clock may be the first to notice a
// deadline.
func causeOf(ctx context.Context, err error) error {
	const early = time.Second
	if deadline, ok := ctx.Deadline(); ok && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < early {
		return context.DeadlineExceeded
	}
	return context.Cause(ctx)
}

func (x *exchange) talk(ctx context.Context, open opener, further []*deployerv1.HostMessage) (err error) {
	messages := x.call.opening
	if messages == nil {
		start, err := x.call.start()
		if err != nil {
			return err
		}
		x.result.ProviderStatus = x.call.status()
		messages = append([]*deployerv1.HostMessage{startMessage(start)}, further...)
	}
	ctx, cancel := context.WithCancel(ctx) // its end ends the stream, and who waits for Stop
	defer cancel()
	if x.stream, err = open(ctx); err != nil {
		return err
	}
	for _, m := range messages {
		if err := x.send(m); err != nil {
			return err
		}
	}
	if x.call.opening != nil {
		x.sent = true
		if err := x.stream.CloseSend(); err != nil {
			return err
		}
	}
	go func() {
		select {
		case <-x.call.Stop:
			_ = x.send(stopMessage())
		case <-ctx.Done():
		}
	}()
	return x.listen(ctx)
}

func startMessage(start *deployerv1.Start) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Start{Start: start}}
}

func stopMessage() *deployerv1.HostMessage {
	return &deployerv1.HostMessage{
		Content: &deployerv1.HostMessage_Stop{Stop: &deployerv1.Stop{Reason: "it is asked for"}},
	}
}

func acknowledgement(sequence uint64, problem string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{
		Acknowledgement: &deployerv1.Acknowledgement{Sequence: sequence, Error: problem},
	}}
}

// send sends a message. When the plugin has ended the call, receiving tells why.
func (x *exchange) send(m *deployerv1.HostMessage) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.sent {
		return nil
	}
	if err := x.stream.Send(m); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// listen takes messages until the plugin ends the call. It returns an error if that happens before the result.
func (x *exchange) listen(ctx context.Context) error {
	finished := false
	for {
		asked := time.Now()
		m, err := x.stream.Recv()
		if waited := time.Since(asked); waited > x.silence {
			x.breaks(RuleHeartbeat, "nothing was said for %s", waited.Round(time.Second))
		}
		switch {
		case errors.Is(err, io.EOF) && !finished:
			x.breaks(RuleOneResult, "the call ended without a result")
			return errNoResult
		case err != nil && !finished:
			return err
		case err != nil:
			if !errors.Is(err, io.EOF) && causeOf(ctx, err) == nil { // the host may have ended the call
				x.breaks(RuleOneResult, "the call ended with an error after its result: %v", err)
			}
			return nil
		case finished:
			x.breaks(RuleOneResult, "%T was sent after the result", m.GetContent())
			continue
		}
		text, _ := proto.Marshal(m) // it was unmarshalled just now
		if slices.ContainsFunc(baits, func(secret string) bool { return bytes.Contains(text, []byte(secret)) }) {
			x.breaks(RuleCredentials, "credentials that came with the call are in a message: %T", m.GetContent())
		}
		if result := m.GetResult(); result != nil {
			finished = true
			x.finish(result)
		} else if err := x.hear(m); err != nil {
			return err
		}
	}
}

// hear takes what the deployer says on the way.
func (x *exchange) hear(m *deployerv1.PluginMessage) error {
	switch content := m.GetContent().(type) {
	case *deployerv1.PluginMessage_Progress:
		x.note(Message{Progress: &Progress{Step: content.Progress.GetStep(), Message: content.Progress.GetMessage()}})
	case *deployerv1.PluginMessage_Event:
		x.note(Message{Event: &Event{
			Warning: content.Event.GetWarning(), Reason: content.Event.GetReason(), Message: content.Event.GetMessage(),
		}})
	case *deployerv1.PluginMessage_Heartbeat:
		x.note(Message{Heartbeat: true})
	case *deployerv1.PluginMessage_ProviderStatus:
		return x.save(content.ProviderStatus)
	case *deployerv1.PluginMessage_ResolveTarget:
		name := content.ResolveTarget.GetName()
		x.checkQuestion(content.ResolveTarget.GetSequence(), name)
		x.note(Message{ResolveTarget: name})
		resolved := x.call.resolve(name)
		resolved.Sequence = content.ResolveTarget.GetSequence()
		return x.send(&deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: resolved}})
	case *deployerv1.PluginMessage_ResolveRegistryCredentials:
		asked := content.ResolveRegistryCredentials
		x.checkQuestion(asked.GetSequence(), asked.GetName())
		x.note(Message{ResolveSecret: asked.GetNamespace() + "/" + asked.GetName()})
		return x.send(&deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{
			ResolvedRegistryCredentials: &deployerv1.ResolvedRegistryCredentials{
				Sequence: asked.GetSequence(), Credentials: x.call.credentials(asked.GetNamespace(), asked.GetName()),
			},
		}})
	}
	return nil // a case of a later version of the protocol, which a receiver ignores
}

func (x *exchange) note(m Message) {
	x.result.Messages = append(x.result.Messages, m)
	if x.call.OnMessage != nil {
		x.call.OnMessage(m)
	}
}

// save answers a provider status, or the wish to have the job picked up.
func (x *exchange) save(status *deployerv1.ProviderStatus) error {
	x.checkQuestion(status.GetSequence(), "provider status")
	pickUp := x.call.pickUpPending && len(status.GetDocument()) == 0
	if pickUp {
		x.note(Message{PickUp: true})
	} else {
		x.checkStatus(status.GetDocument())
		x.note(Message{ProviderStatus: status.GetDocument()})
	}
	if x.call.OnSave != nil {
		if err := x.call.OnSave(status.GetDocument()); err != nil {
			return x.send(acknowledgement(status.GetSequence(), err.Error()))
		}
	}
	if !pickUp {
		x.result.ProviderStatus = status.GetDocument()
	}
	return x.send(acknowledgement(status.GetSequence(), ""))
}

// checkQuestion checks the number of what is to be answered, and the name of what is asked for.
func (x *exchange) checkQuestion(sequence uint64, name string) {
	if sequence <= x.sequence {
		x.breaks(RuleSequence, "sequence %d came after %d", sequence, x.sequence)
	}
	x.sequence = sequence
	if name == "" {
		x.breaks(RuleSequence, "a Target or a Secret without a name was asked for")
	}
}

// checkStatus checks the document of a provider status.
func (x *exchange) checkStatus(document []byte) {
	if err := checkObject(document); err != nil {
		x.breaks(RuleProviderStatus, "the provider status %v", err)
	}
}

// checkObject checks that a document is an object of Kubernetes.
func checkObject(document []byte) error {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		return fmt.Errorf("is not a JSON object: %w", err)
	}
	if !utf8.Valid(document) {
		return errors.New("is not UTF-8")
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		return fmt.Errorf("has apiVersion %.100q and kind %.100q; it needs both", meta.APIVersion, meta.Kind)
	}
	return nil
}

// finish takes the result.
func (x *exchange) finish(in *deployerv1.Result) {
	if len(in.GetProviderStatus()) > 0 {
		x.checkStatus(in.GetProviderStatus())
		x.result.ProviderStatus = in.GetProviderStatus()
	}
	x.result.Conditions = convert(in.GetConditions(), conditionFromWire)
	if err := sdk.CheckConditions(x.result.Conditions); err != nil {
		x.breaks(RuleConditions, "%v", err)
	}
	switch outcome := in.GetOutcome().(type) {
	case *deployerv1.Result_Succeeded:
		exports, err := decodeExports(outcome.Succeeded.GetExports())
		if err != nil {
			x.breaks(RuleResult, "%v", err)
		}
		x.result.Succeeded = &Succeeded{Exports: exports}
	case *deployerv1.Result_Failed:
		x.result.Failed = failedFromWire(outcome.Failed)
		for _, flaw := range x.result.Failed.flaws() {
			x.breaks(RuleResult, "%s", flaw)
		}
	case *deployerv1.Result_InProgress:
		waitingFor, pollAfter := outcome.InProgress.GetWaitingFor(), outcome.InProgress.GetPollAfter().AsDuration()
		x.result.InProgress = &sdk.InProgress{WaitingFor: waitingFor, PollAfter: pollAfter}
		if waitingFor == "" {
			x.breaks(RuleResult, "the job is in progress, but the result does not say what it waits for")
		}
		if pollAfter < 0 {
			x.breaks(RuleResult, "the job is to be polled after %s", pollAfter)
		}
	default:
		x.breaks(RuleOneResult, "the result has no outcome")
		x.result.Err = errors.New("the result has no outcome")
	}
}
