package sdk

import (
	"context"
	"log/slog"
	"net"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// Serve is the main function of a plugin: it serves the deployer to the host of this process and returns when the host
// has ended it. With wrong options it prints them, and exits with 2. When the host dies the process exits at once with
// 3, because the deployer could save nothing more.
//
// While it serves its host, SIGTERM and SIGINT are ignored: in a terminal or a pod they often reach the whole process
// group, and the host gets them too and ends its plugins in order.
//
// Started by hand it prints a description of the program, and exits with 1, but for two command lines:
//
//   - With "attachable [ADDRESS]", such as in a debugger, it prints an address and lets any host attach, until SIGINT
//     or SIGTERM; a second one ends it at once. ADDRESS is the path of a socket: hosts find the plugin there again
//     after a restart. Logs are then text on standard error.
//   - With "install --to DIR" it copies itself into a plugin directory, under the name of the plugin, or NAME with
//     "--as NAME". So an image of nothing but the plugin can bring it into the directory of a host.
func Serve(deployer Deployer, opts ...Option) { serve(deployerPlugin(deployer, opts)) }

// ServeHooks is the main function of a plugin of nothing but hooks, for the deploy items of HookedTypes. All else is as
// with Serve.
func ServeHooks(hooks hook.Hooks, opts ...Option) { serve(hooksPlugin(hooks, opts)) }

func serve(p *plugin, err error) {
	if err != nil {
		serving.Misconfigured(err)
	}
	p.program().Main()
}

// ServeInProcess serves the deployer within this process, over a real socket, until ctx ends; done is closed when the
// server is down and every call has returned. It is for tests; package sdktest builds on it. Logs go to log.
func ServeInProcess(
	ctx context.Context, log *slog.Logger, deployer Deployer, opts ...Option,
) (address net.Addr, done <-chan struct{}, err error) {
	p, err := deployerPlugin(deployer, opts)
	if err != nil {
		return nil, nil, err
	}
	return p.program().InProcess(ctx, log)
}

// ServeHooksInProcess is to ServeHooks what ServeInProcess is to Serve.
func ServeHooksInProcess(
	ctx context.Context, log *slog.Logger, hooks hook.Hooks, opts ...Option,
) (address net.Addr, done <-chan struct{}, err error) {
	p, err := hooksPlugin(hooks, opts)
	if err != nil {
		return nil, nil, err
	}
	return p.program().InProcess(ctx, log)
}

func (p *plugin) program() *serving.Program {
	return &serving.Program{
		Name: p.Info.GetName(), Version: p.Info.GetVersion(),
		Service: func(log *slog.Logger) (deployerv1.DeployerServiceServer, *serving.RunningCalls) {
			s := newServer(p, log)
			return s, s.running
		},
	}
}
