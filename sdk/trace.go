package sdk

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// traceContext puts the trace context of W3C that a host may send with a call into the context of the call.
func traceContext() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(withTrace(ctx), in)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(server, &tracedStream{ServerStream: stream, ctx: withTrace(stream.Context())})
		}),
	}
}

func withTrace(ctx context.Context) context.Context {
	md, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx
	}
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
