package serving

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// WakeUps collects items until they are sent, each once. It never grows beyond the number of items, even for a slow
// host.
type WakeUps struct {
	mu    sync.Mutex
	items map[types.NamespacedName]struct{}
	ready chan struct{} // holds a token while there are items
}

// NewWakeUps returns no items.
func NewWakeUps() *WakeUps {
	return &WakeUps{items: map[types.NamespacedName]struct{}{}, ready: make(chan struct{}, 1)}
}

// Add adds an item.
func (w *WakeUps) Add(namespace, name string) {
	w.mu.Lock()
	w.items[types.NamespacedName{Namespace: namespace, Name: name}] = struct{}{}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *WakeUps) take() map[types.NamespacedName]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.items
	w.items = map[types.NamespacedName]struct{}{}
	return taken
}

// flush sends the items.
func (w *WakeUps) flush(send func(*deployerv1.WatchResponse) error) error {
	for item := range w.take() {
		if err := send(&deployerv1.WatchResponse{Namespace: item.Namespace, Name: item.Name}); err != nil {
			return fmt.Errorf("send wake-up: %w", err)
		}
	}
	return nil
}

// Forward sends the items until ctx ends, those of before its end included, or sending fails.
func (w *WakeUps) Forward(ctx context.Context, send func(*deployerv1.WatchResponse) error) error {
	for {
		select {
		case <-ctx.Done():
			return w.flush(send)
		case <-w.ready:
		}
		if err := w.flush(send); err != nil {
			return err
		}
	}
}
