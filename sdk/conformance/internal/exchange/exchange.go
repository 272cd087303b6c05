// Package exchange makes one call of an operation as the host does: it sends the start message, answers questions,
// listens until the end, and reports which rules the plugin breaks meanwhile.
package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Breach names a rule of calls, as package conformance does.
type Breach string

// The rules.
const (
	Texts          Breach = "texts"
	OneResult      Breach = "one-result"
	Heartbeat      Breach = "heartbeat"
	Sequence       Breach = "sequence"
	ProviderStatus Breach = "provider-status"
	Result         Breach = "result"
	Conditions     Breach = "conditions"
)

// Stream is the stream of an operation.
type Stream = grpc.BidiStreamingClient[deployerv1.HostMessage, deployerv1.PluginMessage]

// Opener opens the stream of one operation.
type Opener func(ctx context.Context, opts ...grpc.CallOption) (Stream, error)

// ErrNoResult reports a call that ended without a result.
var ErrNoResult = errors.New("the plugin ended the call without a result")

// Call is what the host says, and how it listens.
type Call struct {
	// Messages are sent at once. Silent reports that nothing follows them.
	Messages []*deployerv1.HostMessage
	Silent   bool
	// Stop asks the plugin to stop when it is closed; may be nil.
	Stop <-chan struct{}
	// PickUpPending: an empty provider status picks the job up.
	PickUpPending bool
	// Silence bounds the time without a message.
	Silence time.Duration

	// Objects answer the questions.
	Objects Objects
	// Save answers a provider status; nil saves all.
	Save func(document json.RawMessage) error
	// Heard gets each message but the result, before it is answered.
	Heard func(m *deployerv1.PluginMessage)
	// Broken gets each breach of a rule.
	Broken func(rule Breach, message string)
}

// End is how a call ended.
type End struct {
	// Outcome of the result.
	Outcome *hostside.Outcome
	// Exports of the outcome.
	Exports map[string]any
	// Saved is the last provider status that was saved before the result; nil for none.
	Saved []byte
}

// conversation is the state of one call.
type conversation struct {
	*Call

	stream   Stream
	sending  sync.Mutex // a gRPC stream takes one sender at a time
	sent     bool       // nothing more may be sent
	sequence uint64
	end      End
}

// Make makes the call. The error says why there is no result; it wraps the cause of the end of ctx.
func (c *Call) Make(ctx context.Context, open Opener) (End, error) {
	x := &conversation{Call: c}
	err := x.talk(ctx, open)
	if err == nil {
		return x.end, nil
	}
	if status.Code(err) == codes.Internal && strings.Contains(err.Error(), "invalid UTF-8") {
		x.breaks(Texts, "a message cannot be sent or read: %v", err)
	}
	if cause := causeOf(ctx, err); cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return x.end, err
}

func (c *Call) breaks(rule Breach, format string, args ...any) {
	c.Broken(rule, fmt.Sprintf(format, args...))
}

// causeOf returns why the host has ended the call; nil if it has not.
func causeOf(ctx context.Context, err error) error {
	// The plugin's clock may be the first to notice a deadline.
	const early = time.Second
	if deadline, ok := ctx.Deadline(); ok && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < early {
		return context.DeadlineExceeded
	}
	return context.Cause(ctx)
}

func (x *conversation) talk(ctx context.Context, open Opener) (err error) {
	ctx, cancel := context.WithCancel(ctx) // its end ends the stream and the wait for Stop
	defer cancel()
	if x.stream, err = open(ctx); err != nil {
		return err
	}
	for _, m := range x.Messages {
		if err := x.send(m); err != nil {
			return err
		}
	}
	if x.Silent {
		x.sent = true
		if err := x.stream.CloseSend(); err != nil {
			return err
		}
	}
	go func() {
		select {
		case <-x.Stop:
			_ = x.send(hostside.StopMessage("it is asked for"))
		case <-ctx.Done():
		}
	}()
	return x.listen(ctx)
}

// send sends a message. After the end of the call it does nothing, because receiving returns the reason.
func (x *conversation) send(m *deployerv1.HostMessage) error {
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

// listen takes messages until the end of the call. The error is for an end before the result.
func (x *conversation) listen(ctx context.Context) error {
	finished := false
	for {
		asked := time.Now()
		m, err := x.stream.Recv()
		if waited := time.Since(asked); waited > x.Silence {
			x.breaks(Heartbeat, "nothing was said for %s", waited.Round(time.Second))
		}
		switch {
		case errors.Is(err, io.EOF) && !finished:
			x.breaks(OneResult, "the call ended without a result")
			return ErrNoResult
		case err != nil && !finished:
			return err
		case err != nil:
			if !errors.Is(err, io.EOF) && causeOf(ctx, err) == nil { // the host may have ended the call
				x.breaks(OneResult, "the call ended with an error after its result: %v", err)
			}
			return nil
		case finished:
			x.breaks(OneResult, "%T was sent after the result", m.GetContent())
			continue
		}
		if result := m.GetResult(); result != nil {
			finished = true
			if err := x.finish(result); err != nil {
				return err
			}
		} else if err := x.answer(m); err != nil {
			return err
		}
	}
}

// answer checks a message and answers a question.
func (x *conversation) answer(m *deployerv1.PluginMessage) error {
	switch content := m.GetContent().(type) {
	case *deployerv1.PluginMessage_ProviderStatus:
		return x.save(m, content.ProviderStatus)
	case *deployerv1.PluginMessage_ResolveTarget:
		name, sequence := content.ResolveTarget.GetName(), content.ResolveTarget.GetSequence()
		x.checkQuestion(sequence, name)
		x.Heard(m)
		target, problem := x.Objects.target(name)
		return x.send(hostside.TargetAnswer(sequence, target, problem))
	case *deployerv1.PluginMessage_ResolveRegistryCredentials:
		asked := content.ResolveRegistryCredentials
		x.checkQuestion(asked.GetSequence(), asked.GetName())
		x.Heard(m)
		secret := x.Objects.secret(asked.GetNamespace(), asked.GetName())
		return x.send(hostside.CredentialsAnswer(asked.GetSequence(), secret, nil))
	default:
		x.Heard(m)
		return nil
	}
}

// save answers a provider status, or the request to pick the job up.
func (x *conversation) save(m *deployerv1.PluginMessage, in *deployerv1.ProviderStatus) error {
	x.checkQuestion(in.GetSequence(), "provider status")
	pickUp := x.PickUpPending && len(in.GetDocument()) == 0
	if !pickUp {
		x.checkStatus(in.GetDocument())
	}
	x.Heard(m)
	var err error
	if x.Save != nil {
		err = x.Save(in.GetDocument())
	}
	if err == nil && !pickUp {
		x.end.Saved = in.GetDocument()
	}
	return x.send(hostside.Acknowledgement(in.GetSequence(), err))
}

// checkQuestion checks the number and the subject of a question.
func (x *conversation) checkQuestion(sequence uint64, name string) {
	if sequence <= x.sequence {
		x.breaks(Sequence, "sequence %d came after %d", sequence, x.sequence)
	}
	x.sequence = sequence
	if name == "" {
		x.breaks(Sequence, "a Target or a Secret without a name was asked for")
	}
}

func (x *conversation) checkStatus(document []byte) {
	if err := hostside.CheckProviderStatus(document); err != nil {
		x.breaks(ProviderStatus, "%v", err)
	}
}
