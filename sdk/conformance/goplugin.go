package conformance

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The services of go-plugin that a host calls. Its messages are internal to it: what is empty is as good as any other empty
// message, and what is not is read from the wire.
const (
	shutdownMethod = "/plugin.GRPCController/Shutdown"
	stdioMethod    = "/plugin.GRPCStdio/StreamStdio"
	// stdioData is the number of the field with what was written.
	stdioData = 2
	// healthService is what the health service is asked about.
	healthService = "plugin"
)

// shutdown tells the plugin to end. The plugin may be gone before it has answered, which is no error.
func shutdown(ctx context.Context, conn *grpc.ClientConn) error {
	err := conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
		return nil
	}
	return err
}

// forwardStdio passes on what the plugin writes to its standard streams while it serves, until the stream ends. A plugin need
// not have the service.
func forwardStdio(conn *grpc.ClientConn, out io.Writer) {
	stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, stdioMethod)
	if err != nil {
		return
	}
	if stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	for {
		written := &emptypb.Empty{}
		if stream.RecvMsg(written) != nil {
			return
		}
		_, _ = out.Write(bytesField(written.ProtoReflect().GetUnknown(), stdioData)) // it never fails
	}
}

// bytesField returns the first field of the number in a message; nil if there is none.
func bytesField(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		found, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if found == number && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			return value
		}
		if n = protowire.ConsumeFieldValue(found, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
