package sdk

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Exit codes of a plugin that does not serve.
const (
	exitFailed        = 1
	exitMisconfigured = 2
	exitHostGone      = 3
)

// Serve is the main function of a plugin: it serves the deployer to the host that started this process and returns when the
// host has ended it. Started by hand it says what the program is and exits with 1; with wrong options it says which and exits
// with 2; when the host dies the process exits at once with 3, because nobody could save what the deployer goes on to do.
//
// Started by hand with AttachableArgument as its only argument, such as in a debugger, it serves to any host that attaches to the
// address that it prints, until SIGINT or SIGTERM; a second one ends it at once. Logs are then text on standard error. With
// InstallArgument as the first one it copies itself into a plugin directory.
//
// While it serves a host that started it, SIGTERM and SIGINT are ignored: in a terminal or a pod they often reach the whole
// process group, and the host, which gets them too, ends its plugins in order.
func Serve(deployer Deployer, opts ...Option) { serve(deployerPlugin(deployer, opts)) }

// ServeHooks is the main function of a plugin that brings nothing but hooks, for the deploy items that HookedTypes names. All else is as
// with Serve.
func ServeHooks(hooks hook.Hooks, opts ...Option) { serve(hooksPlugin(hooks, opts)) }

func serve(p *plugin, err error) {
	if err != nil {
		// In one line: of a program that has ended the host shows the last one.
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(exitMisconfigured)
	}
	config := handshake.Config()
	if os.Getenv(config.MagicCookieKey) != config.MagicCookieValue {
		serveByHand(p)
		return
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, os.Interrupt)
	endWithHost()

	// go-plugin puts a pipe in the place of os.Stderr when it begins to serve, and what is still in there when the process ends is lost: the
	// last words of a process, of all. The host reads the real one.
	stderr := os.Stderr
	log := newLogger(stderr, os.Getenv(handshake.LogLevelEnv))
	slog.SetDefault(log)
	s := newServer(p, log)
	s.serving = sync.OnceFunc(func() { os.Stderr = stderr })
	goplugin.Serve(serveConfig(s))
}

// serveByHand is for a process that no host has started.
func serveByHand(p *plugin) {
	switch args := os.Args[1:]; {
	case isAttachable(args):
		serveToDebug(p)
	case isInstall(args):
		os.Exit(install(os.Stdout, os.Stderr, p, args[1:]))
	default:
		fmt.Fprintf(os.Stderr, "%s %s is a plugin for Pergola. It is not run by hand: put it into the host's plugin directory, such as with %[3]s --to DIR. "+
			"To debug it, start it with the argument %[4]s.\n", p.name, p.version, InstallArgument, AttachableArgument)
		os.Exit(exitFailed)
	}
}

// serveToDebug serves to hosts that attach, until somebody ends it.
func serveToDebug(p *plugin) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends a process that does not come to an end
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel(os.Getenv(handshake.LogLevelEnv), slog.LevelDebug)}))
	slog.SetDefault(log)
	if err := serveAttachable(ctx, os.Stdout, log, p); err != nil {
		fmt.Fprintf(os.Stderr, "%s %s cannot be attached to: %v\n", p.name, p.version, err)
		os.Exit(exitFailed)
	}
}

// Attachment tells where a plugin that is served within this process can be reached.
type Attachment struct {
	// Network and Address as net.Dial takes them.
	Network, Address string
}

// ServeInProcess serves the deployer within this process, over a real socket, until ctx ends; done is closed when the server
// is down and every call has returned. It is for tests and for running a deployer under a debugger. Logs go to log.
func ServeInProcess(ctx context.Context, log *slog.Logger, deployer Deployer, opts ...Option) (at *Attachment, done <-chan struct{}, err error) {
	p, err := deployerPlugin(deployer, opts)
	if err != nil {
		return nil, nil, err
	}
	return serveInProcess(ctx, log, p)
}

// ServeHooksInProcess is to ServeHooks what ServeInProcess is to Serve.
func ServeHooksInProcess(ctx context.Context, log *slog.Logger, hooks hook.Hooks, opts ...Option) (at *Attachment, done <-chan struct{}, err error) {
	p, err := hooksPlugin(hooks, opts)
	if err != nil {
		return nil, nil, err
	}
	return serveInProcess(ctx, log, p)
}

func serveInProcess(ctx context.Context, log *slog.Logger, p *plugin) (at *Attachment, done <-chan struct{}, err error) {
	reattach := make(chan *goplugin.ReattachConfig, 1)
	closed := make(chan struct{})
	// Waiting for handlers, which a plugin process that is told to end must not do, makes done mean that no call is left.
	config := serveConfig(newServer(p, log), grpc.WaitForHandlers(true))
	config.Test = &goplugin.ServeTestConfig{Context: ctx, ReattachConfigCh: reattach, CloseCh: closed}
	go goplugin.Serve(config)
	select {
	case r := <-reattach:
		return &Attachment{Network: r.Addr.Network(), Address: r.Addr.String()}, closed, nil
	case <-closed:
		return nil, nil, fmt.Errorf("serve plugin %q in this process: the server ended at once", p.name)
	}
}

func serveConfig(s *server, own ...grpc.ServerOption) *goplugin.ServeConfig {
	return &goplugin.ServeConfig{
		HandshakeConfig: handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{
			handshake.ProtocolVersion: {handshake.PluginName: &grpcPlugin{server: s}},
		},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			opts = append(opts, serverOptions(s)...)
			return grpc.NewServer(append(opts, own...)...)
		},
		Logger: hclog.NewNullLogger(),
	}
}

// serverOptions let a server take and send what the protocol allows, continue the traces of hosts, and tell of its health.
func serverOptions(s *server) []grpc.ServerOption {
	return append(traceContext(),
		grpc.ChainUnaryInterceptor(s.checkHealth),
		grpc.MaxRecvMsgSize(handshake.MaxMessageBytes),
		grpc.MaxSendMsgSize(handshake.MaxMessageBytes),
		grpc.InitialWindowSize(handshake.WindowBytes),
		grpc.InitialConnWindowSize(4*handshake.WindowBytes),
	)
}

// grpcPlugin registers the server with go-plugin. The client side is the host's.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin

	server *server
}

var _ goplugin.GRPCPlugin = (*grpcPlugin)(nil)

func (p *grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, registrar *grpc.Server) error {
	deployerv1.RegisterDeployerServiceServer(registrar, p.server)
	return nil
}

func (p *grpcPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("the sdk has no client of the protocol")
}

// endWithHost ends the process when the host is gone. The host holds the other end of a pipe, which the kernel closes however
// the host ends, and so sooner and more surely than any check of the parent's process id could tell.
func endWithHost() {
	fd, err := strconv.Atoi(os.Getenv(handshake.LifelineEnv))
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		os.Exit(exitHostGone)
	}()
}
