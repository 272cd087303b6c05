package serving

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// attachableArgument, alone or with an address, lets hosts attach. It is no flag, because the main function may parse
// flags.
const attachableArgument = "attachable"

// Program is the program of a plugin.
type Program struct {
	// Name and Version of the plugin.
	Name, Version string
	// Service returns the plugin's side of the protocol, and its running calls.
	Service func(log *slog.Logger) (deployerv1.DeployerServiceServer, *RunningCalls)
}

// Misconfigured ends the program of a plugin with wrong options.
func Misconfigured(err error) {
	// In one line, because the host shows the last line of a program.
	fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(exitMisconfigured)
}

// Main serves the host of this process, or does what the arguments of a process without a host say.
func (p *Program) Main() {
	config := handshake.Config()
	if os.Getenv(config.MagicCookieKey) == config.MagicCookieValue {
		p.serveHost(config)
	} else {
		p.serveByHand(os.Args[1:])
	}
}

func (p *Program) serveHost(config goplugin.HandshakeConfig) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, os.Interrupt)
	endWithHost()

	// go-plugin replaces os.Stderr by a pipe when it begins to serve, and the content of the pipe is lost at the end of
	// the process: its last words. The host reads the real standard error.
	stderr := os.Stderr
	restore := sync.OnceFunc(func() { os.Stderr = stderr })
	restoring := func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if info.FullMethod == deployerv1.DeployerService_GetInfo_FullMethodName { // the first call of a host
			restore()
		}
		return handle(ctx, in)
	}
	// The host reads each line of JSON back into a record.
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: logLevel(slog.LevelInfo)}))
	slog.SetDefault(log)
	service, running := p.Service(log)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: config,
		VersionedPlugins: map[int]goplugin.PluginSet{
			handshake.ProtocolVersion: {handshake.PluginName: &plugin{service: service}},
		},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(append(opts, options(running)...), grpc.ChainUnaryInterceptor(restoring))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

func (p *Program) serveByHand(args []string) {
	switch {
	case isAttachable(args):
		if err := p.serveAttachable(strings.Join(args[1:], "")); err != nil {
			fmt.Fprintf(os.Stderr, "%s %s cannot be attached to: %v\n", p.Name, p.Version, err)
			os.Exit(exitFailed)
		}
	case len(args) > 0 && args[0] == installArgument:
		os.Exit(install(os.Stdout, os.Stderr, p.Name, p.Version, args[1:]))
	default:
		fmt.Fprintf(os.Stderr, "%s %s is a plugin for Pergola. It is not run by hand: "+
			"put it into the host's plugin directory, such as with %[3]s --to DIR. "+
			"To debug it, start it with the argument %[4]s, or with %[4]s and the path of a socket, such as /tmp/%[1]s.sock.\n",
			p.Name, p.Version, installArgument, attachableArgument)
		os.Exit(exitFailed)
	}
}

// isAttachable reports whether the arguments are "attachable [ADDRESS]". An address is a path with a slash, or has one
// behind unix://, so that neither a flag nor a port is taken for a file.
func isAttachable(args []string) bool {
	return len(args) > 0 && len(args) <= 2 && args[0] == attachableArgument &&
		!slices.ContainsFunc(args[1:], func(arg string) bool { return !strings.Contains(arg, "/") })
}

// serveAttachable lets hosts attach, until a signal, at an address, or at a new one if that is empty.
func (p *Program) serveAttachable(at string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel(slog.LevelDebug)}))
	slog.SetDefault(log)
	address, done, err := p.socket(ctx, at, log)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s %s serves until it is interrupted. "+
		"Attach to it with pergola host --attach unix://%s or pergola plugins run --attach unix://%[3]s\n",
		p.Name, p.Version, address)
	<-done
	return nil
}

// InProcess serves within a process that is no plugin, at a new address, until ctx ends; done is closed when the server
// is down and every call has returned.
func (p *Program) InProcess(ctx context.Context, log *slog.Logger) (address net.Addr, done <-chan struct{}, err error) {
	return p.socket(ctx, "", log, grpc.WaitForHandlers(true))
}

func (p *Program) socket(
	ctx context.Context, at string, log *slog.Logger, opts ...grpc.ServerOption,
) (address net.Addr, done <-chan struct{}, err error) {
	service, running := p.Service(log)
	return socket(ctx, p.Name, at, log, service, append(options(running), opts...))
}
