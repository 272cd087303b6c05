package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// heartbeatInterval is how often a running call says that it is alive. The protocol promises ten seconds at most.
const heartbeatInterval = 5 * time.Second

// stream is the stream of Reconcile, Delete, Abort or ForceReconcile.
type stream = grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]

// call sends messages to the host while the deployer works, and receives the host's.
type call struct {
	stream stream
	// resolves has the questions that the host answers.
	resolves map[string]bool

	// pending: the host has not picked the job up yet, as far as is known here. pickingUp is held by who has it do so.
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

// openCall starts to receive the host's messages, and to send heartbeats until finish is called.
func openCall(s stream, start *deployerv1.Start) *call {
	c := &call{
		stream: s,
		resolves: map[string]bool{
			"ResolveTarget":              start.GetResolvesTargets(),
			"ResolveRegistryCredentials": start.GetResolvesRegistryCredentials(),
		},
		waiting: map[uint64]chan *deployerv1.HostMessage{},
		stop:    make(chan struct{}),
		closed:  make(chan struct{}),
	}
	c.pending.Store(start.GetPickUpPending())
	// Both end with the stream, which gRPC ends when the handler returns: they cannot be waited for here.
	go c.receive()
	go c.beat()
	return c
}

// errOver is the error of a goroutine that sends something after its call has returned.
var errOver = errors.New("the call has returned")

// finish sends the result, after which nothing more is sent, not even by a goroutine that the deployer left behind.
func (c *call) finish(result *deployerv1.Result) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.over = true
	if size := proto.Size(result); size > handshake.MaxMessageBytes-1<<10 {
		result = resultTooLarge(size)
	}
	m := &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: result}}
	if err := c.stream.Send(m); err != nil {
		return fmt.Errorf("send result: %w", err)
	}
	return nil
}

// resultTooLarge stands for a result of so many bytes, which the host would not take, nor after another call.
func resultTooLarge(size int) *deployerv1.Result {
	err := &Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Reason: ReasonItemTooLarge, Err: fmt.Errorf(
			"the result of the deployer has %d bytes, but a message may have no more than %d", size, handshake.MaxMessageBytes),
	}
	return &deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: failedToWire("Result", err)}}
}

// report sends a message without an answer. When the stream is broken the call ends anyway, by its context.
func (c *call) report(m *deployerv1.PluginMessage) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if !c.over {
		_ = c.stream.Send(m)
	}
}

func (c *call) beat() {
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

func (c *call) receive() {
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

// answer passes an answer on, unless nobody waits for it any more.
func (c *call) answer(sequence uint64, m *deployerv1.HostMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[sequence]; ok {
		delete(c.waiting, sequence)
		answer <- m
	}
}

// ask sends a question, which question makes for its sequence number, and waits for the answer.
func (c *call) ask(
	ctx context.Context, question func(sequence uint64) *deployerv1.PluginMessage,
) (*deployerv1.HostMessage, error) {
	answer := make(chan *deployerv1.HostMessage, 1) // so that nobody waits for this goroutine
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
func (c *call) sendQuestion(
	question func(sequence uint64) *deployerv1.PluginMessage, answer chan *deployerv1.HostMessage,
) (sequence uint64, err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.over {
		return 0, errOver
	}
	c.sequence++
	c.mu.Lock()
	c.waiting[c.sequence] = answer
	c.mu.Unlock()
	return c.sequence, c.stream.Send(question(c.sequence))
}
