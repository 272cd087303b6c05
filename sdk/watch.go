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

// Watch implements DeployerServiceServer, for a host without WatchItems.
func (s *server) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	return s.serveWatch(stream.Context(), "Watch", nil, stream.Send)
}

// WatchItems implements DeployerServiceServer.
func (s *server) WatchItems(stream serving.WatchStream) error {
	host := serving.OpenWatch(stream)
	return s.serveWatch(stream.Context(), "WatchItems", host, host.WakeUp)
}

func (s *server) serveWatch(
	ctx context.Context, method string, host *serving.Watch, send func(*deployerv1.WatchResponse) error,
) error {
	watcher, ok := s.plugin.deployer.(Watcher)
	if !ok {
		return s.unimplemented(method)
	}
	wakeUps := serving.NewWakeUps()
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(ctx, watcher, &WatchRequest{
			wake: wakeUps.Add, host: host,
			read: func(start *deployerv1.Start) (*Request, error) { return s.request("Watch", start) },
		})
	}()
	err := wakeUps.Forward(ctx, send)
	cancel()
	<-watching
	return err
}

// watch calls the Watcher, again and again, until ctx ends.
func (s *server) watch(ctx context.Context, watcher Watcher, req *WatchRequest) {
	for ctx.Err() == nil {
		_, err := guarded(s, s.log, "deployer", "Watch", func() (struct{}, error) {
			return struct{}{}, watcher.Watch(ctx, req)
		})
		if e, ok := errors.AsType[*Error](err); ok && e.Reason == ReasonHostTooOld {
			s.log.Warn("deployer cannot watch; its deploy items are polled", "error", err.Error())
			<-ctx.Done() // another call would have the same end
			return
		}
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
