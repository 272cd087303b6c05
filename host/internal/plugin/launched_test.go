package plugin

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The broker of go-plugin keeps what a plugin sends there; see withoutBroker.
func TestWithoutBroker(t *testing.T) {
	t.Parallel()
	errOpened := errors.New("opened")
	open := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, errOpened
	}
	for method, opens := range map[string]bool{
		"/plugin.GRPCBroker/StartStream":                 false,
		"/plugin.GRPCStdio/StreamStdio":                  true,
		"/pergola.deployer.v1.DeployerService/Reconcile": true,
	} {
		_, err := withoutBroker(t.Context(), nil, nil, method, open)
		if opens != errors.Is(err, errOpened) || !opens && status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: found: %v", method, err)
		}
	}
}
