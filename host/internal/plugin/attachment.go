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
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// attachment is a plugin that somebody else has started, such as a debugger: it is called, but neither looked after nor ended. The
// connection to it is a Unix socket without TLS, which only its owner can reach.
type attachment struct {
	address  string
	settings *settings
	log      *slog.Logger
}

var _ source = (*attachment)(nil)

func (a *attachment) start(ctx context.Context) (*process, error) {
	if !strings.HasPrefix(a.address, "unix:///") {
		return nil, refusal(fmt.Errorf("expected an address such as unix:///tmp/plugin.sock, which an attachable plugin prints, but found %q", a.address))
	}
	conn, err := grpc.NewClient(a.address, append(dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0))...)
	if err != nil {
		return nil, fmt.Errorf("cannot be attached to: %w", err)
	}
	connecting, cancel := context.WithTimeout(ctx, a.settings.startTimeout)
	defer cancel()
	if err := connect(connecting, conn); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot be attached to: %w", err), conn.Close())
	}
	return &process{
		link:   newAttached(ctx, conn),
		client: deployerv1.NewDeployerServiceClient(conn),
		health: grpc_health_v1.NewHealthClient(conn),
		calls:  newCalls(), clock: a.settings.clock, log: a.log, confinement: "none: it was not started by the host",
	}, nil
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

func (a *attachment) check(*Info) error { return nil }

func (a *attachment) sum() string { return "" }

func (a *attachment) attached() bool { return true }

func (a *attachment) close() {}

// attached is the connection to such a plugin.
type attached struct {
	conn     *grpc.ClientConn
	lost     chan struct{} // closed when the connection is
	watching sync.WaitGroup
	cancel   context.CancelFunc
}

var _ link = (*attached)(nil)

func newAttached(ctx context.Context, conn *grpc.ClientConn) *attached {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &attached{conn: conn, lost: make(chan struct{}), cancel: cancel}
	a.watching.Go(func() {
		defer close(a.lost)
		conn.WaitForStateChange(ctx, connectivity.Ready)
	})
	return a
}

func (a *attached) ended() <-chan struct{} { return a.lost }

func (a *attached) state() string { return "the connection was closed" }

func (a *attached) pid() int { return 0 }

func (a *attached) foreign() bool { return true }

func (a *attached) kill() { a.cancel() }

func (a *attached) stop() {
	a.cancel()
	a.watching.Wait()
	_ = a.conn.Close() // it is closed already, at worst
}

func (a *attached) memory() uint64 { return 0 }

func (a *attached) droppedLines() uint64 { return 0 }

func (a *attached) logLastWords(*slog.Logger) {}
