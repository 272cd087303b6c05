package sdk

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
)

// serverOptions let a server take and send what the protocol allows, whatever the texts of the deployer are, continue
// the traces of hosts, and report its health.
func serverOptions(s *server) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(traceUnary, s.checkHealth),
		grpc.ChainStreamInterceptor(traceStream),
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.MaxRecvMsgSize(handshake.MaxMessageBytes),
		grpc.MaxSendMsgSize(handshake.MaxMessageBytes),
		grpc.InitialWindowSize(handshake.WindowBytes),
		grpc.InitialConnWindowSize(4 * handshake.WindowBytes),
	}
}

// checkHealth answers health checks. The health services of go-plugin and of grpc say in any case that the plugin
// serves.
func (s *server) checkHealth(
	ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
		if call := s.running.overdue(); call != "" {
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

// withTrace puts the trace context of W3C that a host may send with a call into the context of the call.
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

// grpcPlugin registers the server with go-plugin. The client side is the host's.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin

	server *server
}

var _ goplugin.GRPCPlugin = (*grpcPlugin)(nil)

// GRPCServer implements goplugin.GRPCPlugin.
func (p *grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, registrar *grpc.Server) error {
	deployerv1.RegisterDeployerServiceServer(registrar, p.server)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin.
func (p *grpcPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the sdk has no client of the protocol")
}
