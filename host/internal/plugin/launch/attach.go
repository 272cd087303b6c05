package launch

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

	"github.com/pergola-deploy/pergola/host/internal/plugin/processlog"
)

// Attach connects to a plugin started elsewhere, such as in a debugger: a Unix socket without TLS, within reach of its
// owner alone.
func Attach(ctx context.Context, address string, s Settings, log *slog.Logger) (*Process, error) {
	if !strings.HasPrefix(address, "unix:///") {
		return nil, Refuse(fmt.Errorf("expected an address such as unix:///tmp/plugin.sock, as printed by an attachable "+
			"plugin, but found %q", address))
	}
	conn, err := grpc.NewClient(address, append(dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot be attached to: %w", err)
	}
	connecting, cancel := context.WithTimeout(ctx, s.Timeout)
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
	return &Process{
		Conn: conn, Output: processlog.New(log, s.Clock), Confinement: "none: it was not started by the host",
		Ended: lost, Kill: end,
		Stop: func() {
			end()
			watching.Wait()
			_ = conn.Close() // it is closed already, at worst
		},
	}, nil
}

// connect blocks until a connection is there.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			return errors.New("no process listens there")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
	return nil
}
