package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// attach connects to a plugin that somebody else has started, such as a debugger: it is called, but neither looked
// after nor ended. The connection to it is a Unix socket without TLS, which only its owner can reach.
func attach(ctx context.Context, address string, s *settings, log *slog.Logger) (*process, error) {
	if !strings.HasPrefix(address, "unix:///") {
		return nil, refusal(fmt.Errorf("expected an address such as unix:///tmp/plugin.sock, which an attachable plugin "+
			"prints, but found %q", address))
	}
	conn, err := grpc.NewClient(address, append(dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot be attached to: %w", err)
	}
	connecting, cancel := context.WithTimeout(ctx, s.StartTimeout)
	defer cancel()
	if err := connect(connecting, conn); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot be attached to: %w", err), conn.Close())
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	lost := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		defer close(lost)
		conn.WaitForStateChange(life, connectivity.Ready)
	})
	p := newProcess(conn, newProcessLog(log, s.Clock))
	p.ended, p.kill, p.confinement = lost, end, "none: it was not started by the host"
	p.stop = func() {
		end()
		watching.Wait()
		_ = conn.Close() // it is closed already, at worst
	}
	return p, nil
}

// connect blocks until a connection is there.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			return errors.New("nobody listens there")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
	return nil
}
