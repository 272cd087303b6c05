package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// listsPerSecond bounds the lists of items for one plugin in the long run, listBurst those at once: a list goes through
// all items of the host.
const (
	listsPerSecond = 1
	listBurst      = 10
)

// Watch takes the wake-ups of a plugin and answers its questions.
type Watch interface {
	// Wake takes a wake-up for any text as namespace and name. The error ends the watch.
	Wake(ctx context.Context, namespace, name string) error
	// Items returns the items of the watch.
	Items(ctx context.Context) ([]sdk.WatchedItem, error)
	// CallFor returns the input of a call for an item of the watch, by any text as namespace and name. The plugin gets an
	// Error unchanged.
	CallFor(ctx context.Context, item types.NamespacedName) (Call, error)
}

// WakeUps forwards the plugin's wake-ups until an error of the stream or of wake.
func (s *Session) WakeUps(ctx context.Context, watch Watch) error {
	wakeUps, err := s.client.Watch(ctx, &deployerv1.WatchRequest{}, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	for err == nil {
		var wakeUp *deployerv1.WatchResponse
		if wakeUp, err = wakeUps.Recv(); err == nil {
			err = watch.Wake(ctx, wakeUp.GetNamespace(), wakeUp.GetName())
		}
	}
	return ended(err)
}

// WatchItems is WakeUps with answers to the plugin's questions, one after the other. It needs Capabilities.WatchItems.
func (s *Session) WatchItems(ctx context.Context, watch Watch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := s.client.WatchItems(ctx, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	questions, lists := newLimits().requests, rate.NewLimiter(listsPerSecond, listBurst)
	for err == nil {
		var m *deployerv1.WatchPluginMessage
		if m, err = stream.Recv(); err != nil {
			break
		}
		if wakeUp := m.GetWakeUp(); wakeUp != nil {
			err = watch.Wake(ctx, wakeUp.GetNamespace(), wakeUp.GetName())
			continue
		}
		pace := questions
		if m.GetListItems() != nil {
			pace = lists
		}
		if err = waitForTurn(ctx, pace); err == nil {
			err = s.answerWatch(ctx, watch, m, stream.Send)
		}
	}
	return ended(err)
}

// ended is the error of a stream of wake-ups.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it ended the stream")
	}
	return err
}

// answerWatch answers a question about the items of a watch. Neither content nor errors are logged.
func (s *Session) answerWatch(ctx context.Context, watch Watch, m *deployerv1.WatchPluginMessage,
	send func(*deployerv1.WatchHostMessage) error) error {
	finding, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	switch content := m.GetContent().(type) {
	case *deployerv1.WatchPluginMessage_ListItems:
		items, err := watch.Items(finding)
		if err != nil {
			return fmt.Errorf("list its items: %w", err)
		}
		for _, answer := range hostside.WatchedItems(content.ListItems.GetSequence(), items) {
			if err := send(answer); err != nil {
				return err
			}
		}
	case *deployerv1.WatchPluginMessage_RequestItem:
		in := content.RequestItem
		// No item has names of such a length, so a cut does no harm.
		start, err := s.startFor(finding, watch, types.NamespacedName{
			Namespace: hostside.Cut(in.GetNamespace(), hostside.MaxText), Name: hostside.Cut(in.GetName(), hostside.MaxText),
		})
		return send(hostside.RequestedItem(in.GetSequence(), start, told("RequestItem", err)))
	}
	return nil
}

// startFor returns the input of a call for an item as a message.
func (s *Session) startFor(
	ctx context.Context, watch Watch, item types.NamespacedName,
) (*deployerv1.Start, error) {
	c, err := watch.CallFor(ctx, item)
	if err != nil {
		return nil, err
	}
	return s.startOf(ctx, c)
}
