package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// heartbeatInterval is how often a call that is under way says that it is. The protocol promises ten seconds at most.
const heartbeatInterval = 5 * time.Second

// stream is the stream of an operation, whichever it is.
type stream = grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]

// conversation is what host and plugin say to each other during one call.
type conversation struct {
	stream stream
	// resolvesTargets and resolvesCredentials: the host answers questions for Targets, and for the credentials of a Secret.
	resolvesTargets, resolvesCredentials bool

	sending sync.Mutex // a gRPC stream takes one sender at a time
	over    bool       // guarded by sending: the result was sent, and nothing may follow it

	mu       sync.Mutex
	sequence uint64
	waiting  map[question]chan *deployerv1.HostMessage
	broken   error // why no answer will come any more

	stop     chan struct{}
	stopOnce sync.Once

	finished chan struct{}
	beating  sync.WaitGroup
}

var _ reporter = (*conversation)(nil)

// question is something that the host has to answer, with a message of the kind that belongs to it.
type question struct {
	sequence uint64
	kind     questionKind
}

// questionKind tells what a question is for.
type questionKind int

const (
	forSave questionKind = iota
	forTarget
	forCredentials
)

// openConversation starts to listen to the host and to send heartbeats, until finish or stopBeating is called.
func openConversation(s stream, start *deployerv1.Start) *conversation {
	c := &conversation{
		stream:              s,
		resolvesTargets:     start.GetResolvesTargets(),
		resolvesCredentials: start.GetResolvesRegistryCredentials(),
		waiting:             map[question]chan *deployerv1.HostMessage{},
		stop:                make(chan struct{}),
		finished:            make(chan struct{}),
	}
	// The listener ends with the stream, which gRPC ends when the handler returns: it cannot be waited for here.
	go c.listen()
	c.beating.Go(c.beat)
	return c
}

// errOver is what a goroutine gets that speaks after the call which it belongs to has returned.
var errOver = errors.New("the call has returned")

// finish sends the result, after which nothing more is sent, not even by a goroutine that the deployer left behind.
func (c *conversation) finish(result *deployerv1.Result) error {
	c.stopBeating()
	c.sending.Lock()
	defer c.sending.Unlock()
	c.over = true
	if err := c.stream.Send(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: result}}); err != nil {
		return fmt.Errorf("send result: %w", err)
	}
	return nil
}

// stopBeating ends the heartbeats; none is sent once it has returned.
func (c *conversation) stopBeating() {
	close(c.finished)
	c.beating.Wait()
}

func (c *conversation) send(m *deployerv1.PluginMessage) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.over {
		return errOver
	}
	return c.stream.Send(m)
}

// report sends a message that nobody waits for. When the stream is broken the call is about to end anyway, by its context.
func (c *conversation) report(m *deployerv1.PluginMessage) {
	_ = c.send(m)
}

func (c *conversation) beat() {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.finished:
			return
		case <-c.stream.Context().Done():
			return
		case <-ticker.C:
			c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Heartbeat{Heartbeat: &deployerv1.Heartbeat{}}})
		}
	}
}

func (c *conversation) listen() {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.breakOff(err)
			return
		}
		switch content := m.GetContent().(type) {
		case *deployerv1.HostMessage_Acknowledgement:
			c.answer(question{sequence: content.Acknowledgement.GetSequence(), kind: forSave}, m)
		case *deployerv1.HostMessage_ResolvedTarget:
			c.answer(question{sequence: content.ResolvedTarget.GetSequence(), kind: forTarget}, m)
		case *deployerv1.HostMessage_ResolvedRegistryCredentials:
			c.answer(question{sequence: content.ResolvedRegistryCredentials.GetSequence(), kind: forCredentials}, m)
		case *deployerv1.HostMessage_Stop:
			c.stopOnce.Do(func() { close(c.stop) })
		}
	}
}

// answer passes an answer on, unless nobody waits for it any more.
func (c *conversation) answer(q question, m *deployerv1.HostMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting, ok := c.waiting[q]; ok {
		delete(c.waiting, q)
		waiting <- m
	}
}

// breakOff tells everybody who waits that no answer will come.
func (c *conversation) breakOff(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
	for q, waiting := range c.waiting {
		close(waiting)
		delete(c.waiting, q)
	}
}

// expectAnswer registers a question with the next sequence number. The channel takes the one answer without blocking whoever gives it,
// and is closed if none will come.
func (c *conversation) expectAnswer(kind questionKind) (question, <-chan *deployerv1.HostMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return question{}, nil, c.broken
	}
	c.sequence++
	q := question{sequence: c.sequence, kind: kind}
	answer := make(chan *deployerv1.HostMessage, 1)
	c.waiting[q] = answer
	return q, answer, nil
}

// forget gives up on an answer that has not come.
func (c *conversation) forget(q question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, q)
}

// pose sends a question, whose message is made for its sequence number. Questions are sent in the order of their numbers.
func (c *conversation) pose(
	kind questionKind, message func(sequence uint64) *deployerv1.PluginMessage,
) (question, <-chan *deployerv1.HostMessage, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.over {
		return question{}, nil, errOver
	}
	q, answer, err := c.expectAnswer(kind)
	if err != nil {
		return question{}, nil, err
	}
	if err := c.stream.Send(message(q.sequence)); err != nil {
		c.forget(q)
		return question{}, nil, err
	}
	return q, answer, nil
}

// ask poses a question and waits for the answer.
func (c *conversation) ask(
	ctx context.Context, kind questionKind, message func(sequence uint64) *deployerv1.PluginMessage,
) (*deployerv1.HostMessage, error) {
	q, answer, err := c.pose(kind, message)
	if err != nil {
		return nil, err
	}
	defer c.forget(q)
	select {
	case m, ok := <-answer:
		if !ok {
			return nil, c.brokenBy()
		}
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.stream.Context().Done():
		return nil, context.Cause(c.stream.Context()) //nolint:contextcheck // the call's context, beside the deployer's own
	}
}

func (c *conversation) brokenBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func (c *conversation) saveProviderStatus(ctx context.Context, document []byte) error {
	answer, err := c.ask(ctx, forSave, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
			ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: document},
		}}
	})
	if err == nil && answer.GetAcknowledgement().GetError() != "" {
		err = errors.New(answer.GetAcknowledgement().GetError())
	}
	if err != nil {
		return fmt.Errorf("save provider status: %w", err)
	}
	return nil
}

func (c *conversation) resolveTarget(ctx context.Context, name string) (*Target, error) {
	if !c.resolvesTargets {
		return nil, hostTooOld(operationResolveTarget, "resolve Target %q: this version of the Pergola host knows no other Target than that of spec.target; update the host", name)
	}
	answer, err := c.ask(ctx, forTarget, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveTarget{
			ResolveTarget: &deployerv1.ResolveTarget{Sequence: sequence, Name: validText(name)},
		}}
	})
	if err != nil {
		return nil, fmt.Errorf("resolve Target %q: %w", name, err)
	}
	return resolvedFromWire(name, answer.GetResolvedTarget())
}

func (c *conversation) resolveRegistryCredentials(ctx context.Context, namespace, name string) (*RegistryCredentials, error) {
	if !c.resolvesCredentials {
		return nil, hostTooOld(operationResolveCredentials, "resolve Secret %q: this version of the Pergola host reads no Secret for a plugin; update the host", name)
	}
	answer, err := c.ask(ctx, forCredentials, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveRegistryCredentials{
			ResolveRegistryCredentials: &deployerv1.ResolveRegistryCredentials{
				Sequence: sequence, Namespace: validText(namespace), Name: validText(name),
			},
		}}
	})
	if err != nil {
		return nil, fmt.Errorf("resolve Secret %q: %w", name, err)
	}
	return resolvedCredentialsFromWire(name, answer.GetResolvedRegistryCredentials())
}

func (c *conversation) progress(step, message string) {
	c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{
		Progress: &deployerv1.Progress{Step: step, Message: message},
	}})
}

func (c *conversation) event(warning bool, reason, message string) {
	c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Event{
		Event: &deployerv1.Event{Warning: warning, Reason: reason, Message: message},
	}})
}

func (c *conversation) stopping() <-chan struct{} { return c.stop }
