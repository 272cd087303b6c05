package serving

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// SendWakeUps runs watch until ctx ends or sending fails, and sends the items for which it has called wake. It returns
// the error of watch, or else that of sending.
func SendWakeUps(
	ctx context.Context, send func(*deployerv1.WatchResponse) error,
	watch func(ctx context.Context, wake func(namespace, name string)) error,
) error {
	collected := newWakeUps()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- watch(ctx, collected.add)
	}()
	sent := collected.forward(ctx, send)
	cancel()
	return cmp.Or(<-ended, sent)
}

// wakeUps collects items until they are sent, each once. It never grows beyond the number of items, even for a slow
// host.
type wakeUps struct {
	mu    sync.Mutex
	items map[types.NamespacedName]struct{}
	ready chan struct{} // holds a token while there are items
}

// newWakeUps returns no items.
func newWakeUps() *wakeUps {
	return &wakeUps{items: map[types.NamespacedName]struct{}{}, ready: make(chan struct{}, 1)}
}

// add adds an item.
func (w *wakeUps) add(namespace, name string) {
	w.mu.Lock()
	w.items[types.NamespacedName{Namespace: namespace, Name: name}] = struct{}{}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *wakeUps) take() map[types.NamespacedName]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.items
	w.items = map[types.NamespacedName]struct{}{}
	return taken
}

// flush sends the items.
func (w *wakeUps) flush(send func(*deployerv1.WatchResponse) error) error {
	for item := range w.take() {
		if err := send(&deployerv1.WatchResponse{Namespace: item.Namespace, Name: item.Name}); err != nil {
			return fmt.Errorf("send wake-up: %w", err)
		}
	}
	return nil
}

// forward sends the items until ctx ends, those of before its end included, or sending fails.
func (w *wakeUps) forward(ctx context.Context, send func(*deployerv1.WatchResponse) error) error {
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
