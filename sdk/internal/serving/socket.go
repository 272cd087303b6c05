package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Socket serves a plugin without TLS, on a socket in a directory that only this user can enter, until ctx ends. Hosts
// may come and go, several at a time; none of them can end it. done is closed when the server is down.
func Socket(
	ctx context.Context, name string, log *slog.Logger, service deployerv1.DeployerServiceServer, opts []grpc.ServerOption,
) (address net.Addr, done <-chan struct{}, err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return nil, nil, fmt.Errorf("create directory for the socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "plugin.sock"))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen: %w", err), os.RemoveAll(dir))
	}
	server := grpc.NewServer(opts...)
	deployerv1.RegisterDeployerServiceServer(server, service)
	healthServer := health.NewServer()
	healthServer.SetServingStatus(goplugin.GRPCServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthServer)
	context.AfterFunc(ctx, server.Stop)

	down := make(chan struct{})
	go func() {
		defer close(down)
		err := server.Serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) { // ctx has ended before
			err = nil
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			log.Error("serving the plugin failed", "error", err.Error())
		}
	}()
	return listener.Addr(), down, nil
}
