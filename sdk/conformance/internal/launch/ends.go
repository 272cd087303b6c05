package launch

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"google.golang.org/protobuf/types/known/emptypb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
)

// end starts a program for a deadly check, and returns why it does not end; empty if it does.
func end(
	ctx context.Context, path string, o Options, l bounds.Limits, told string, tell func(*Program),
) (problem string) {
	p, err := Start(ctx, path, o)
	if err != nil {
		return fmt.Sprintf("start the program another time: %v", err)
	}
	defer p.Close()
	if tell(p); !p.Ends(l.End) {
		return fmt.Sprintf("the process still runs %s after %s", l.End, told)
	}
	return ""
}

// EndWhenTold returns why a program does not end when it is told to, in the middle of a call, and why it ends by a
// signal; empty if all is right.
func EndWhenTold(ctx context.Context, path string, o Options, l bounds.Limits) (problem, signalled string) {
	problem = end(ctx, path, o, l, "it was told to end", func(p *Program) {
		for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
			if err := p.cmd.Process.Signal(signal); err != nil || p.Ends(l.Pause) {
				signalled = fmt.Sprintf("%s ended the process (%v)", signal, err)
				return
			}
		}
		ctx, cancel := context.WithTimeout(ctx, l.End)
		defer cancel()
		// The plugin may be gone before it has answered either.
		_, _ = deployerv1.NewDeployerServiceClient(p.Conn).Reconcile(ctx)
		_ = p.Conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	})
	return problem, signalled
}

// EndWithHost returns why a program does not end with its lifeline; empty if it does.
func EndWithHost(ctx context.Context, path string, o Options, l bounds.Limits) (problem string) {
	return end(ctx, path, o, l, "its lifeline was closed", func(p *Program) { _ = p.lifeline.Close() })
}
