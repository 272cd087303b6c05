package serving

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/test/await"
)

// A plugin with a call that goes on although it was cancelled is unhealthy, and says which call that is.
func TestHealthOfACancelledCall(t *testing.T) {
	t.Parallel()
	running := NewRunningCalls()
	running.grace = 0
	serving, stop := context.WithCancel(t.Context())
	address, done, err := socket(serving, "test", "", slog.New(slog.DiscardHandler),
		deployerv1.UnimplementedDeployerServiceServer{}, options(running))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+address.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		<-done
	})
	expect := func(when string, code codes.Code, text string) {
		t.Helper()
		await.That(t, time.Minute, when, func() bool {
			_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			return status.Code(err) == code && strings.Contains(status.Convert(err).Message(), text)
		})
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end, err := running.Begin(ctx, "uid", "Reconcile of the deploy item default/item")
	if err != nil {
		t.Fatal(err)
	}
	expect("the plugin to be healthy in the call", codes.OK, "")
	cancel()
	expect("the plugin to name the call", codes.FailedPrecondition,
		"Reconcile of the deploy item default/item goes on although it was cancelled")
	end()
	expect("the plugin to be healthy after the call", codes.OK, "")
}
