package serving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// heartbeatInterval is how often a running call says that it is alive. The protocol promises ten seconds at most.
const heartbeatInterval = 5 * time.Second

// Stream is the stream of Reconcile, Delete, Abort or ForceReconcile.
type Stream = grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]

// Call sends messages to the host while the deployer works, and receives the host's. The nil Call is that of a deployer
// without a stream, as in Render: it reports and saves nothing, and its questions are errors.
type Call struct {
	stream Stream
	// The questions of this host.
	resolvesTargets, resolvesRegistryCredentials bool

	// pending: the host has not picked the job up yet, as far as is known here. pickingUp serializes the requests.
	pending   atomic.Bool
	pickingUp sync.Mutex

	sending  sync.Mutex // a gRPC stream takes one sender at a time; guards over and sequence
	over     bool       // the result was sent, and nothing may follow it
	sequence uint64     // of the last question

	mu      sync.Mutex
	waiting map[uint64]chan *deployerv1.HostMessage // for the answer to the question with this sequence

	stop    chan struct{} // closed when the host wants the call to end soon
	closed  chan struct{} // closed when no message of the host will come any more, because of recvErr
	recvErr error
}

// OpenCall starts to receive the host's messages, and to send heartbeats until Finish is called.
func OpenCall(s Stream, start *deployerv1.Start) *Call {
	c := &Call{
		stream:                      s,
		resolvesTargets:             start.GetResolvesTargets(),
		resolvesRegistryCredentials: start.GetResolvesRegistryCredentials(),
		waiting:                     map[uint64]chan *deployerv1.HostMessage{},
		stop:                        make(chan struct{}),
		closed:                      make(chan struct{}),
	}
	c.pending.Store(start.GetPickUpPending())
	// Both end with the stream, which gRPC ends when the handler returns: they cannot be waited for here.
	go c.receive()
	go c.beat()
	return c
}

// ErrOver is the error for a message after the end of its call.
var ErrOver = errors.New("the call has returned")

// Finish sends the result. Goroutines of the deployer send nothing more after it.
func (c *Call) Finish(result *deployerv1.Result) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.over = true
	m := &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: result}}
	if err := c.stream.Send(m); err != nil {
		return fmt.Errorf("send result: %w", err)
	}
	return nil
}

// Progress reports a step.
func (c *Call) Progress(step, message string) {
	c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{
		Progress: &deployerv1.Progress{Step: step, Message: message},
	}})
}

// Event records an event, a warning or not.
func (c *Call) Event(warning bool, reason, message string) {
	c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Event{
		Event: &deployerv1.Event{Warning: warning, Reason: reason, Message: message},
	}})
}

// report sends a message without an answer. When the stream is broken the call ends anyway, by its context.
func (c *Call) report(m *deployerv1.PluginMessage) {
	if c == nil {
		return
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if !c.over {
		_ = c.stream.Send(m)
	}
}

func (c *Call) beat() {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.stream.Context().Done():
			return
		case <-ticker.C:
			c.report(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Heartbeat{
				Heartbeat: &deployerv1.Heartbeat{},
			}})
		}
	}
}

func (c *Call) receive() {
	defer close(c.closed)
	stop := sync.OnceFunc(func() { close(c.stop) })
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.recvErr = err
			return
		}
		switch content := m.GetContent().(type) {
		case *deployerv1.HostMessage_Acknowledgement:
			c.answer(content.Acknowledgement.GetSequence(), m)
		case *deployerv1.HostMessage_ResolvedTarget:
			c.answer(content.ResolvedTarget.GetSequence(), m)
		case *deployerv1.HostMessage_ResolvedRegistryCredentials:
			c.answer(content.ResolvedRegistryCredentials.GetSequence(), m)
		case *deployerv1.HostMessage_Stop:
			stop()
		}
	}
}

// Stopping is closed when the host wants the call to end soon.
func (c *Call) Stopping() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.stop
}

// PickUp asks the host to pick the job up, unless that is done.
func (c *Call) PickUp(ctx context.Context) error {
	if c == nil || !c.pending.Load() {
		return nil
	}
	c.pickingUp.Lock()
	defer c.pickingUp.Unlock()
	if !c.pending.Load() {
		return nil
	}
	return c.Save(ctx, nil)
}

// Save asks the host to save a provider status, and to pick the job up.
func (c *Call) Save(ctx context.Context, document []byte) error {
	if c == nil {
		return nil
	}
	answer, err := c.ask(ctx, true, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
			ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: document},
		}}
	})
	if text := answer.GetAcknowledgement().GetError(); err == nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		return fmt.Errorf("save provider status: %w", err)
	}
	c.pending.Store(false)
	return nil
}

// answer passes an answer on, if its question still waits.
func (c *Call) answer(sequence uint64, m *deployerv1.HostMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[sequence]; ok {
		delete(c.waiting, sequence)
		answer <- m
	}
}

// ask sends a question and waits for the answer, if the host has one. question makes the message for its sequence
// number.
func (c *Call) ask(
	ctx context.Context, answers bool, question func(sequence uint64) *deployerv1.PluginMessage,
) (*deployerv1.HostMessage, error) {
	if !answers {
		return nil, ErrHostTooOld
	}
	answer := make(chan *deployerv1.HostMessage, 1) // receiving must not wait for this goroutine
	sequence, err := c.sendQuestion(question, answer)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, sequence)
	}()
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.closed:
		return nil, c.recvErr
	}
}

// sendQuestion sends questions in the order of their sequence numbers.
func (c *Call) sendQuestion(
	question func(sequence uint64) *deployerv1.PluginMessage, answer chan *deployerv1.HostMessage,
) (sequence uint64, err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.over {
		return 0, ErrOver
	}
	c.sequence++
	c.mu.Lock()
	c.waiting[c.sequence] = answer
	c.mu.Unlock()
	return c.sequence, c.stream.Send(question(c.sequence))
}
