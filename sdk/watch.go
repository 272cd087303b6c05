package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// watchPause is how long the server waits before it calls a Watcher again that has returned.
const watchPause = time.Second

// Watch implements DeployerServiceServer.
func (s *server) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	watcher, ok := s.plugin.deployer.(Watcher)
	if !ok {
		return s.unimplemented("Watch")
	}
	wakeUps := newWakeUps()
	ctx, cancel := context.WithCancel(stream.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(ctx, watcher, wakeUps.add)
	}()
	err := wakeUps.forward(ctx, stream.Send)
	cancel()
	<-watching
	return err
}

// watch calls the Watcher, again and again, until ctx ends.
func (s *server) watch(ctx context.Context, watcher Watcher, wake func(namespace, name string)) {
	for ctx.Err() == nil {
		_, err := guarded(s, s.log, "deployer", "Watch", func() (struct{}, error) {
			return struct{}{}, watcher.Watch(ctx, wake)
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("deployer stopped watching; it is called again",
				"error", err.Error(), "pause", watchPause.String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// wakeUps collects items until they are sent. An item that is woken several times before is sent once, so that it
// never grows beyond the number of items, however slow the host is.
type wakeUps struct {
	mu    sync.Mutex
	items map[types.NamespacedName]struct{}
	ready chan struct{} // holds a token while there are items
}

func newWakeUps() *wakeUps {
	return &wakeUps{items: map[types.NamespacedName]struct{}{}, ready: make(chan struct{}, 1)}
}

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

// forward sends what is collected until ctx ends or sending fails.
func (w *wakeUps) forward(ctx context.Context, send func(*deployerv1.WatchResponse) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.ready:
		}
		for item := range w.take() {
			if err := send(&deployerv1.WatchResponse{Namespace: item.Namespace, Name: item.Name}); err != nil {
				return fmt.Errorf("send wake-up: %w", err)
			}
		}
	}
}
