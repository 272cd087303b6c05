package serving

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/proto/wire"
)

// options let a server take and send what the protocol allows, continue the traces of hosts, and report its health.
func options(running *RunningCalls) []grpc.ServerOption {
	return append(wire.ServerOptions(),
		grpc.ChainUnaryInterceptor(traceUnary, running.checkHealth), grpc.ChainStreamInterceptor(traceStream))
}

// checkHealth answers health checks about overdue calls. Other health services do not know them.
func (r *RunningCalls) checkHealth(
	ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
		if call := r.overdue(); call != "" {
			return nil, status.Errorf(codes.FailedPrecondition, "%s goes on although it was cancelled", call)
		}
	}
	return handle(ctx, in)
}

func traceUnary(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(withTrace(ctx), in)
}

func traceStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(server, &tracedStream{ServerStream: stream, ctx: withTrace(stream.Context())})
}

// withTrace puts the host's trace context, in the form of W3C, into the context of the call.
func withTrace(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	carrier := propagation.MapCarrier{}
	for _, key := range (propagation.TraceContext{}).Fields() {
		if values := md.Get(key); len(values) > 0 {
			carrier[key] = values[0]
		}
	}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}

// tracedStream is a stream with another context.
type tracedStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // it is that of the stream
}

// Context implements grpc.ServerStream.
func (s *tracedStream) Context() context.Context { return s.ctx }
