package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// AttachableArgument makes a plugin that is started by hand serve to hosts that attach to it, when it is the only argument. It is a
// plain word, so that a main function that parses flags before it calls Serve does not stumble over it. All other arguments are the plugin's.
const AttachableArgument = "attachable"

func isAttachable(args []string) bool { return slices.Equal(args, []string{AttachableArgument}) }

// serveAttachable serves the plugin until ctx ends, without TLS, on a socket in a directory that only this user can enter. It
// tells on stdout how to attach. Hosts may come and go, several at a time; none of them can end it.
func serveAttachable(ctx context.Context, stdout io.Writer, log *slog.Logger, p *plugin) (err error) {
	dir, err := os.MkdirTemp("", p.name+"-")
	if err != nil {
		return fmt.Errorf("create directory for the socket: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "plugin.sock")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s := newServer(p, log)
	server := grpc.NewServer(serverOptions(s)...)
	deployerv1.RegisterDeployerServiceServer(server, s)
	healthServer := health.NewServer()
	healthServer.SetServingStatus(goplugin.GRPCServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthServer)
	// There is no controller that a host could ask to end the process: it belongs to whoever started it.
	defer context.AfterFunc(ctx, server.Stop)()

	if _, err := fmt.Fprintf(stdout, "%s %s serves until it is interrupted. Attach to it with pergola host --attach unix://%s or pergola plugins run --attach unix://%[3]s\n",
		p.name, p.version, socket); err != nil {
		server.Stop()
		return fmt.Errorf("tell how to attach: %w", err)
	}
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
