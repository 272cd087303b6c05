package serving

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// WatchStream is the stream of WatchItems.
type WatchStream = grpc.BidiStreamingServer[deployerv1.WatchHostMessage, deployerv1.WatchPluginMessage]

// Watch asks the host about the items of a watch, one question at a time, and sends wake-ups meanwhile. It is nil for a
// host without items of a watch.
type Watch struct {
	stream WatchStream
	asking chan struct{} // holds a token during a question
	closed chan struct{} // closed when no message of the host will come any more, because of recvErr

	sending sync.Mutex // a gRPC stream takes one sender at a time

	mu       sync.Mutex
	sequence uint64    // of the last question
	question *question // nil if none waits

	recvErr error
}

// question is a question with its answer so far.
type question struct {
	answer   []*deployerv1.WatchHostMessage
	answered chan struct{}
}

// OpenWatch starts to receive the answers of the host.
func OpenWatch(stream WatchStream) *Watch {
	w := &Watch{stream: stream, asking: make(chan struct{}, 1), closed: make(chan struct{})}
	go w.receive() // it ends with the stream
	return w
}

func (w *Watch) receive() {
	defer close(w.closed)
	for {
		m, err := w.stream.Recv()
		if err != nil {
			w.recvErr = err
			return
		}
		w.take(m)
	}
}

// take adds a message to the answer of the question, unless that does not wait any more.
func (w *Watch) take(m *deployerv1.WatchHostMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sequence := max(m.GetWatchedItems().GetSequence(), m.GetRequestedItem().GetSequence())
	if w.question == nil || sequence != w.sequence {
		return
	}
	w.question.answer = append(w.question.answer, m)
	if !m.GetWatchedItems().GetMore() {
		close(w.question.answered)
		w.question = nil
	}
}

func (w *Watch) send(m *deployerv1.WatchPluginMessage) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return w.stream.Send(m)
}

// WakeUp sends a wake-up.
func (w *Watch) WakeUp(m *deployerv1.WatchResponse) error {
	return w.send(&deployerv1.WatchPluginMessage{Content: &deployerv1.WatchPluginMessage_WakeUp{WakeUp: m}})
}

// ask sends a question and waits for the answer, of at least one message, after the questions before. message makes the
// question for its sequence number.
func (w *Watch) ask(
	ctx context.Context, message func(sequence uint64) *deployerv1.WatchPluginMessage,
) ([]*deployerv1.WatchHostMessage, error) {
	if w == nil {
		return nil, ErrHostTooOld
	}
	select {
	case w.asking <- struct{}{}:
		defer func() { <-w.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	q := &question{answered: make(chan struct{})}
	w.mu.Lock()
	w.sequence++
	sequence := w.sequence
	w.question = q
	w.mu.Unlock()
	if err := w.send(message(sequence)); err != nil {
		return nil, fmt.Errorf("ask the host: %w", err)
	}
	select {
	case <-q.answered:
		return q.answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-w.closed:
		return nil, fmt.Errorf("ask the host: %w", w.recvErr)
	}
}
