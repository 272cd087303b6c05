package sdk

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/test/await"
)

// deaf is a deployer that goes on until it is let go, whatever becomes of the call.
type deaf struct{ called, letGo chan struct{} }

func (d deaf) Reconcile(context.Context, *Request) (*Response, error) {
	close(d.called)
	<-d.letGo
	return nil, nil
}

func (deaf) Delete(context.Context, *Request) (*Response, error) { return nil, nil }

// A plugin with a call that goes on although it was cancelled is unhealthy, and says which call that is.
func TestHealthOfACancelledCall(t *testing.T) {
	t.Parallel()
	d := deaf{called: make(chan struct{}), letGo: make(chan struct{})}
	p, err := deployerPlugin(d, []Option{Name("deaf"), Types("example.org/deaf")})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(p, slog.New(slog.DiscardHandler))
	s.turns.grace = 0
	conn := serveToTest(t, s)
	expect := func(when string, code codes.Code, text string) {
		t.Helper()
		await.That(t, time.Minute, when, func() bool {
			_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			return status.Code(err) == code && strings.Contains(status.Convert(err).Message(), text)
		})
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call, err := deployerv1.NewDeployerServiceClient(conn).Reconcile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	start := &deployerv1.Start{DeployItem: []byte(`{"metadata":{"namespace":"default","name":"item","uid":"uid"}}`)}
	if err := call.Send(&deployerv1.HostMessage{
		Content: &deployerv1.HostMessage_Start{Start: start},
	}); err != nil {
		t.Fatal(err)
	}
	<-d.called
	expect("the plugin to be healthy in the call", codes.OK, "")
	cancel()
	expect("the plugin to tell of the call", codes.FailedPrecondition, "Reconcile of the deploy item default/item goes on although it was cancelled")
	close(d.letGo)
	expect("the plugin to be healthy after the call", codes.OK, "")
}

// serveToTest serves as a plugin does, and returns a connection to it.
func serveToTest(t *testing.T, s *server) *grpc.ClientConn {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(serverOptions(s)...)
	deployerv1.RegisterDeployerServiceServer(g, s)
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}
