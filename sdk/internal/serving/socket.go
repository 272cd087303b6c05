package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// socket serves a plugin without TLS until ctx ends, on a socket for this user alone: at an address, a path or
// unix:///path, or if that is empty in a new directory. Hosts may come and go, several at a time; none of them can end
// it. done is closed when the server is down.
func socket(
	ctx context.Context, name, address string, log *slog.Logger, service deployerv1.DeployerServiceServer,
	opts []grpc.ServerOption,
) (listens net.Addr, done <-chan struct{}, err error) {
	listener, remove, err := listen(ctx, name, address)
	if err != nil {
		return nil, nil, err
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
		err := server.Serve(listener)              // it removes the socket
		if errors.Is(err, grpc.ErrServerStopped) { // ctx has ended before
			err = nil
		}
		if err := errors.Join(err, remove()); err != nil {
			log.Error("serving the plugin failed", "error", err.Error())
		}
	}()
	return listener.Addr(), down, nil
}

// listen listens at an address, or without one in a new directory. remove removes the directory.
func listen(ctx context.Context, name, address string) (listener net.Listener, remove func() error, err error) {
	remove = func() error { return nil }
	path := strings.TrimPrefix(address, "unix://")
	if path == "" {
		dir, err := os.MkdirTemp("", name+"-")
		if err != nil {
			return nil, nil, fmt.Errorf("create directory for the socket: %w", err)
		}
		path, remove = filepath.Join(dir, "plugin.sock"), func() error { return os.RemoveAll(dir) }
	} else if path, err = filepath.Abs(path); err == nil {
		err = removeStale(ctx, path)
	}
	if err == nil {
		mask := syscall.Umask(0o077)
		listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", path)
		syscall.Umask(mask)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen: %w", err), remove())
	}
	return listener, remove, nil
}

// removeStale removes the socket of a killed process.
func removeStale(ctx context.Context, path string) error {
	file, err := os.Lstat(path) //nolint:gosec // the path is an argument of the program
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case file.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is no socket; name another path, or remove it", path)
	}
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close() // nothing was written
		return fmt.Errorf("another process serves at %s; end it, or name another path", path)
	}
	return os.Remove(path) //nolint:gosec // see above
}
