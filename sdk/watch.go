package sdk

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// watchPause is how long the server waits before it calls a Watcher again that has returned.
const watchPause = time.Second

// Watch implements DeployerServiceServer.
func (s *server) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	watcher, ok := s.plugin.deployer.(Watcher)
	if !ok {
		return s.unimplemented("Watch")
	}
	wakeUps := serving.NewWakeUps()
	ctx, cancel := context.WithCancel(stream.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(ctx, watcher, wakeUps.Add)
	}()
	err := wakeUps.Forward(ctx, stream.Send)
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
