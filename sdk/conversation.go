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

// wire is one stream of an operation, whichever it is.
type wire struct {
	context func() context.Context
	recv    func() (*deployerv1.HostMessage, error)
	send    func(*deployerv1.PluginMessage) error
}

// newWire strips the messages of one RPC, which the protocol keeps apart for their own evolution.
func newWire[In, Out any](
	stream grpc.BidiStreamingServer[In, Out],
	unwrap func(*In) *deployerv1.HostMessage,
	wrap func(*deployerv1.PluginMessage) *Out,
) wire {
	return wire{
		context: stream.Context,
		recv: func() (*deployerv1.HostMessage, error) {
			in, err := stream.Recv()
			if err != nil {
				return nil, err
			}
			return unwrap(in), nil
		},
		send: func(m *deployerv1.PluginMessage) error { return stream.Send(wrap(m)) },
	}
}

// conversation is what host and plugin say to each other during one call.
type conversation struct {
	wire wire

	sending sync.Mutex // a gRPC stream takes one sender at a time
	over    bool       // guarded by sending: the result was sent, and nothing may follow it

	mu       sync.Mutex
	sequence uint64
	waiting  map[uint64]chan error
	broken   error // why no acknowledgement will come any more

	stop     chan struct{}
	stopOnce sync.Once

	finished chan struct{}
	beating  sync.WaitGroup
}

var _ reporter = (*conversation)(nil)

// openConversation starts to listen to the host and to send heartbeats, until finish is called.
func openConversation(w wire) *conversation {
	c := &conversation{
		wire:     w,
		waiting:  map[uint64]chan error{},
		stop:     make(chan struct{}),
		finished: make(chan struct{}),
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
	close(c.finished)
	c.beating.Wait()
	c.sending.Lock()
	defer c.sending.Unlock()
	c.over = true
	if err := c.wire.send(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: result}}); err != nil {
		return fmt.Errorf("send result: %w", err)
	}
	return nil
}

func (c *conversation) send(m *deployerv1.PluginMessage) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.over {
		return errOver
	}
	return c.wire.send(m)
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
		case <-c.wire.context().Done():
			return
		case <-ticker.C:
			c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Heartbeat{Heartbeat: &deployerv1.Heartbeat{}}})
		}
	}
}

func (c *conversation) listen() {
	for {
		m, err := c.wire.recv()
		if err != nil {
			c.breakOff(err)
			return
		}
		switch content := m.GetContent().(type) {
		case *deployerv1.HostMessage_Acknowledgement:
			c.acknowledge(content.Acknowledgement)
		case *deployerv1.HostMessage_Stop:
			c.stopOnce.Do(func() { close(c.stop) })
		}
	}
}

func (c *conversation) acknowledge(ack *deployerv1.Acknowledgement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, ok := c.waiting[ack.GetSequence()]
	if !ok {
		return
	}
	delete(c.waiting, ack.GetSequence())
	if ack.GetError() != "" {
		answer <- errors.New(ack.GetError())
	}
	close(answer)
}

func (c *conversation) breakOff(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
	for sequence, answer := range c.waiting {
		answer <- err
		close(answer)
		delete(c.waiting, sequence)
	}
}

// expectAnswer registers the next sequence number. The channel takes the one answer without blocking whoever gives it.
func (c *conversation) expectAnswer() (uint64, <-chan error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, nil, c.broken
	}
	c.sequence++
	answer := make(chan error, 1)
	c.waiting[c.sequence] = answer
	return c.sequence, answer, nil
}

func (c *conversation) saveProviderStatus(ctx context.Context, document []byte) error {
	sequence, answer, err := c.expectAnswer()
	if err != nil {
		return fmt.Errorf("save provider status: %w", err)
	}
	err = c.send(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: document},
	}})
	if err != nil {
		return fmt.Errorf("save provider status: %w", err)
	}
	select {
	case err := <-answer:
		if err != nil {
			return fmt.Errorf("save provider status: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("save provider status: %w", context.Cause(ctx))
	case <-c.wire.context().Done():
		return fmt.Errorf("save provider status: %w", context.Cause(c.wire.context())) //nolint:contextcheck // the call's context, beside the deployer's own
	}
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
