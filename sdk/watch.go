package sdk

import (
	"cmp"
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

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
	return serving.SendWakeUps(ctx, send, func(ctx context.Context, wake func(namespace, name string)) error {
		return s.watch(ctx, watcher, &WatchRequest{
			wake: wake, host: host,
			read: func(start *deployerv1.Start) (*Request, error) { return s.request("Watch", start) },
		})
	})
}

// watch calls the Watcher. The host opens the stream again after its end.
func (s *server) watch(ctx context.Context, watcher Watcher, req *WatchRequest) error {
	_, err := guarded(s, s.log.With(operationKey, "Watch"), "deployer", "Watch", func() (struct{}, error) {
		return struct{}{}, watcher.Watch(ctx, req)
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == ReasonHostTooOld {
		s.log.Warn("deployer cannot watch; its deploy items are polled", "error", err.Error())
		<-ctx.Done() // another call would have the same end
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the host has ended the stream
	}
	return status.Errorf(codes.Aborted, "the deployer stopped watching: %v", cmp.Or(err, errors.New("without an error")))
}
