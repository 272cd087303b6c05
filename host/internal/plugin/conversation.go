package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// conversation is what host and plugin say to each other during one call.
type conversation struct {
	stream   stream
	observer Observer

	mu     sync.Mutex // a gRPC stream takes one sender at a time, and none after the call
	closed bool
}

func newConversation(s stream, observer Observer) *conversation {
	return &conversation{stream: s, observer: observer}
}

var errClosed = errors.New("the call has ended")

func (c *conversation) send(m *deployerv1.HostMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if err := c.stream.send(m); !errors.Is(err, io.EOF) {
		return err
	}
	return nil // the plugin has ended the call; receiving tells how
}

func (c *conversation) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// result listens to the plugin until it gives its result.
func (c *conversation) result(ctx context.Context) (*deployerv1.Result, error) {
	for {
		m, err := c.stream.recv()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: it ended the call without a result", ErrProtocol)
		}
		if err != nil {
			return nil, err
		}
		switch content := m.GetContent().(type) {
		case *deployerv1.PluginMessage_Result:
			return content.Result, nil
		case *deployerv1.PluginMessage_ProviderStatus:
			if err := c.save(ctx, content.ProviderStatus); err != nil {
				return nil, err
			}
		case *deployerv1.PluginMessage_Progress:
			c.observer.Progress(bounded(content.Progress.GetStep()), bounded(content.Progress.GetMessage()))
		case *deployerv1.PluginMessage_Event:
			c.observer.Event(content.Event.GetWarning(), bounded(content.Event.GetReason()), bounded(content.Event.GetMessage()))
		default: // a heartbeat, or what a newer plugin says that this host does not know
		}
	}
}

// save saves a provider status and tells the plugin how that went.
func (c *conversation) save(ctx context.Context, in *deployerv1.ProviderStatus) error {
	ack := &deployerv1.Acknowledgement{Sequence: in.GetSequence()}
	if err := c.observer.SaveProviderStatus(ctx, in.GetDocument()); err != nil {
		ack.Error = bounded(err.Error())
	}
	return c.send(&deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{Acknowledgement: ack}})
}
