package sdk

import (
	"context"
	"fmt"
	"sync"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// wakeUps collects items until they are sent. An item that is woken several times before is sent once, so that it never grows
// beyond the number of items, however slow the host is.
type wakeUps struct {
	mu    sync.Mutex
	items map[wakeUp]struct{}
	ready chan struct{}
}

type wakeUp struct{ namespace, name string }

func newWakeUps() *wakeUps {
	return &wakeUps{items: map[wakeUp]struct{}{}, ready: make(chan struct{}, 1)}
}

func (w *wakeUps) add(namespace, name string) {
	w.mu.Lock()
	w.items[wakeUp{namespace, name}] = struct{}{}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *wakeUps) take() map[wakeUp]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.items
	w.items = map[wakeUp]struct{}{}
	return taken
}

// forward sends what is collected until ctx ends or sending fails.
func (w *wakeUps) forward(ctx context.Context, send func(*deployerv1.WatchResponse) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.ready:
		}
		for item := range w.take() {
			if err := send(&deployerv1.WatchResponse{Namespace: item.namespace, Name: item.name}); err != nil {
				return fmt.Errorf("send wake-up: %w", err)
			}
		}
	}
}
