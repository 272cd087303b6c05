package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// stream is the stream of an operation, whichever it is.
type stream = grpc.BidiStreamingClient[deployerv1.HostMessage, deployerv1.PluginMessage]

// opener opens the stream of one operation.
type opener func(ctx context.Context, opts ...grpc.CallOption) (stream, error)

// maxKept bounds the messages that are kept of one call, by their size on the wire.
const maxKept = 64 << 20

// exchange is one call as the host sees it.
type exchange struct {
	call    *Call
	result  *Result
	found   observations
	silence time.Duration // how long the plugin may say nothing
	secrets [][]byte      // what the plugin must not say
	tokens  [][]byte      // neither

	sending  sync.Mutex // a gRPC stream takes one sender at a time
	stream   stream
	sequence uint64
	kept     int
}

// converse carries out one call: it sends the start message, answers what is to be answered, and listens until the end.
func converse(ctx context.Context, open opener, call *Call, silence time.Duration) (*Result, observations) {
	e := &exchange{call: call, result: &Result{}, silence: silence, secrets: secretsOf(call.Credentials), tokens: tokensOf(call.HostCluster)}
	if call.DeployItem != nil && call.DeployItem.Status.ProviderStatus != nil {
		e.result.ProviderStatus = call.DeployItem.Status.ProviderStatus.Raw
	}
	// The end of this context ends the stream and the goroutine that waits for call.Stop.
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.talk(streamCtx, open); err != nil {
		if cause := causeOf(ctx, err); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		e.result.Err = err
	}
	return e.result, e.found
}

// causeOf says why the host has ended the call; nil if it has not. The plugin's clock may be the first to notice a deadline.
func causeOf(ctx context.Context, err error) error {
	const early = time.Second
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if deadline, ok := ctx.Deadline(); ok && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < early {
		return context.DeadlineExceeded
	}
	return nil
}

func (e *exchange) talk(ctx context.Context, open opener) error {
	start, err := e.call.start()
	if err != nil {
		return err
	}
	if e.stream, err = open(ctx); err != nil {
		return err
	}
	var stopping sync.WaitGroup
	defer stopping.Wait()
	ended := make(chan struct{})
	defer close(ended)

	for _, m := range append([]*deployerv1.HostMessage{startMessage(start)}, e.call.noise...) {
		// io.EOF means that the plugin has ended the call, for a reason that receiving will tell.
		if err := e.send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	stopping.Go(func() {
		select {
		case <-e.call.Stop:
			_ = e.send(stopMessage())
		case <-ended:
		case <-ctx.Done():
		}
	})
	return e.listen(ctx)
}

func startMessage(start *deployerv1.Start) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Start{Start: start}}
}

func stopMessage() *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Stop{Stop: &deployerv1.Stop{Reason: "it is asked for"}}}
}

func acknowledgement(sequence uint64, problem string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{
		Acknowledgement: &deployerv1.Acknowledgement{Sequence: sequence, Error: problem},
	}}
}

func resolvedTarget(answer *deployerv1.ResolvedTarget) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: answer}}
}

func resolvedCredentials(answer *deployerv1.ResolvedRegistryCredentials) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{ResolvedRegistryCredentials: answer}}
}

func (e *exchange) send(m *deployerv1.HostMessage) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.stream.Send(m)
}

// receive takes the next message and notes a silence that was too long.
func (e *exchange) receive() (*deployerv1.PluginMessage, error) {
	asked := time.Now()
	m, err := e.stream.Recv()
	if waited := time.Since(asked); waited > e.silence {
		e.found.breaks(RuleHeartbeat, "nothing was said for %s", waited.Round(time.Second))
	}
	return m, err
}

// listen takes messages until the plugin ends the call. It returns an error if that happens before the result.
func (e *exchange) listen(ctx context.Context) error {
	finished, began := false, time.Now()
	defer func() {
		if time.Since(began) > e.silence {
			e.found.pass(RuleHeartbeat)
		}
	}()
	for {
		m, err := e.receive()
		switch {
		case errors.Is(err, io.EOF) && !finished:
			e.found.breaks(RuleOneResult, "the call ended without a result")
			return errors.New("the plugin ended the call without a result")
		case err != nil && !finished:
			return err
		case err != nil && !errors.Is(err, io.EOF) && causeOf(ctx, err) == nil: // the host may have ended the call
			e.found.breaks(RuleOneResult, "the call ended with an error after its result: %v", err)
			return nil
		case err != nil:
			return nil
		case finished:
			e.found.breaks(RuleOneResult, "%T was sent after the result", m.GetContent())
			continue
		}
		e.found.checkKept(RuleContextCredentials, "credentials", e.secrets, m)
		e.found.checkKept(RuleHostCluster, "credentials of the host cluster", e.tokens, m)
		if result := m.GetResult(); result != nil {
			finished = true
			e.finish(result)
			continue
		}
		if err := e.hear(m); err != nil {
			return err
		}
	}
}

// hear takes what the deployer says on the way.
func (e *exchange) hear(m *deployerv1.PluginMessage) error {
	e.kept += proto.Size(m)
	switch content := m.GetContent().(type) {
	case *deployerv1.PluginMessage_Progress:
		e.note(Message{Progress: &Progress{Step: content.Progress.GetStep(), Message: content.Progress.GetMessage()}})
	case *deployerv1.PluginMessage_Event:
		e.note(Message{Event: &Event{
			Warning: content.Event.GetWarning(), Reason: content.Event.GetReason(), Message: content.Event.GetMessage(),
		}})
	case *deployerv1.PluginMessage_Heartbeat:
		e.note(Message{Heartbeat: true})
	case *deployerv1.PluginMessage_ProviderStatus:
		return e.save(content.ProviderStatus)
	case *deployerv1.PluginMessage_ResolveTarget:
		return e.resolve(content.ResolveTarget)
	case *deployerv1.PluginMessage_ResolveRegistryCredentials:
		return e.resolveCredentials(content.ResolveRegistryCredentials)
	}
	return nil // a case of a later version of the protocol, which a receiver ignores
}

func (e *exchange) note(m Message) {
	if e.kept <= maxKept {
		e.result.Messages = append(e.result.Messages, m)
	}
	if e.call.OnMessage != nil {
		e.call.OnMessage(m)
	}
}

// save answers a provider status.
func (e *exchange) save(status *deployerv1.ProviderStatus) error {
	e.count(status.GetSequence())
	e.found.checkStatus(status.GetDocument())
	e.note(Message{ProviderStatus: status.GetDocument()})

	problem := ""
	if err := e.answer(status.GetDocument()); err != nil {
		problem = err.Error()
	} else {
		e.result.ProviderStatus = status.GetDocument()
	}
	return e.reply(acknowledgement(status.GetSequence(), problem))
}

// resolve answers a question for a Target. A host that does not know such questions would say nothing, for ever.
func (e *exchange) resolve(asked *deployerv1.ResolveTarget) error {
	e.count(asked.GetSequence())
	e.found.pass(RuleResolveTarget)
	if e.call.fromThePast {
		e.found.breaks(RuleResolveTarget, "the Target %s was asked for, although resolves_targets is false", quoted(asked.GetName()))
		return errors.New("the plugin asked for a Target that the host does not resolve")
	}
	if asked.GetName() == "" {
		e.found.breaks(RuleResolveTarget, "a Target without a name was asked for")
	}
	e.note(Message{ResolveTarget: asked.GetName()})
	resolved := e.call.resolve(asked.GetName())
	resolved.Sequence = asked.GetSequence()
	return e.reply(resolvedTarget(resolved))
}

// resolveCredentials answers a question for the credentials of a Secret, as resolve does for a Target.
func (e *exchange) resolveCredentials(asked *deployerv1.ResolveRegistryCredentials) error {
	e.count(asked.GetSequence())
	e.found.pass(RuleResolveTarget)
	if e.call.fromThePast {
		e.found.breaks(RuleResolveTarget, "the Secret %s was asked for, although resolves_registry_credentials is false", quoted(asked.GetName()))
		return errors.New("the plugin asked for a Secret that the host does not resolve")
	}
	if asked.GetName() == "" {
		e.found.breaks(RuleResolveTarget, "a Secret without a name was asked for")
	}
	e.note(Message{ResolveSecret: asked.GetNamespace() + "/" + asked.GetName()})
	return e.reply(resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{
		Sequence: asked.GetSequence(), Credentials: e.call.credentials(asked.GetNamespace(), asked.GetName()),
	}))
}

// count checks the number of what is to be answered.
func (e *exchange) count(sequence uint64) {
	e.found.pass(RuleStatusSequence)
	if sequence <= e.sequence {
		e.found.breaks(RuleStatusSequence, "sequence %d came after %d", sequence, e.sequence)
	}
	e.sequence = sequence
}

// reply answers something. io.EOF means that the plugin has ended the call, for a reason that receiving will tell.
func (e *exchange) reply(m *deployerv1.HostMessage) error {
	if err := e.send(m); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (e *exchange) answer(document []byte) error {
	if e.call.OnSave == nil {
		return nil
	}
	return e.call.OnSave(document)
}

// finish takes the result.
func (e *exchange) finish(in *deployerv1.Result) {
	e.found.pass(RuleOneResult)
	if len(in.GetProviderStatus()) > 0 {
		e.found.checkStatus(in.GetProviderStatus())
		e.result.ProviderStatus = in.GetProviderStatus()
	}
	e.result.Conditions = conditionsFromWire(in.GetConditions())
	switch outcome := in.GetOutcome().(type) {
	case *deployerv1.Result_Succeeded:
		exports, err := decodeExports(outcome.Succeeded.GetExports())
		if len(outcome.Succeeded.GetExports()) > 0 {
			e.found.pass(RuleExportsObject)
		}
		if err != nil {
			e.found.breaks(RuleExportsObject, "%v", err)
		}
		e.result.Succeeded = &Succeeded{Exports: exports}
	case *deployerv1.Result_Failed:
		e.result.Failed = failedFromWire(outcome.Failed)
	case *deployerv1.Result_InProgress:
		e.result.InProgress = &sdk.InProgress{
			WaitingFor: outcome.InProgress.GetWaitingFor(),
			PollAfter:  outcome.InProgress.GetPollAfter().AsDuration(),
		}
	default:
		e.found.breaks(RuleOneResult, "the result has no outcome")
		e.result.Err = errors.New("the result has no outcome")
	}
	e.found.checkResult(e.result)
}

func failedFromWire(in *deployerv1.Failed) *Failed {
	out := &Failed{}
	for _, e := range in.GetErrors() {
		out.Errors = append(out.Errors, errorFromWire(e))
	}
	return out
}

func errorFromWire(in *deployerv1.Error) Error {
	out := Error{Operation: in.GetOperation(), Reason: in.GetReason(), Message: in.GetMessage()}
	for _, code := range in.GetCodes() {
		out.Codes = append(out.Codes, v1alpha1.ErrorCode(code))
	}
	return out
}

func childrenFromWire(in *deployerv1.Children) []sdk.Child {
	children := make([]sdk.Child, 0, len(in.GetChildren()))
	for _, child := range in.GetChildren() {
		children = append(children, sdk.Child{Name: child.GetName(), Object: slices.Clone(child.GetObject())})
	}
	return children
}

func conditionsFromWire(in []*deployerv1.Condition) []sdk.Condition {
	var conditions []sdk.Condition
	for _, c := range in {
		conditions = append(conditions, sdk.Condition{
			Type:    v1alpha1.ConditionType(c.GetType()),
			Status:  v1alpha1.ConditionStatus(c.GetStatus()),
			Reason:  c.GetReason(),
			Message: c.GetMessage(),
		})
	}
	return conditions
}

func changesFromWire(in *deployerv1.Changes) []sdk.Change {
	changes := make([]sdk.Change, 0, len(in.GetChanges()))
	for _, c := range in.GetChanges() {
		changes = append(changes, sdk.Change{
			Object: c.GetObject(), Action: sdk.Action(c.GetAction()), Before: c.GetBefore(), After: c.GetAfter(), Note: c.GetNote(),
		})
	}
	return changes
}
