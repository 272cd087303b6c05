package plugin

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// raw is a plugin without the sdk, which would not let it misbehave like this: the name of the item says how.
type raw struct {
	deployerv1.UnimplementedDeployerServiceServer
	goplugin.NetRPCUnsupportedPlugin

	name  string
	types []string
}

var (
	_ deployerv1.DeployerServiceServer = (*raw)(nil)
	_ goplugin.GRPCPlugin              = (*raw)(nil)
)

func serveRaw(name, itemType string) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{
			handshake.ProtocolVersion: {handshake.PluginName: &raw{name: name, types: []string{itemType}}},
		},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(handshake.MaxMessageBytes),
				grpc.UnaryInterceptor(tellHealth))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// unhealthy makes the process say so.
var unhealthy atomic.Bool

func tellHealth(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName && unhealthy.Load() {
		return nil, status.Error(codes.FailedPrecondition, "a call goes on although it was cancelled")
	}
	return handle(ctx, in)
}

func (r *raw) GRPCServer(_ *goplugin.GRPCBroker, registrar *grpc.Server) error {
	deployerv1.RegisterDeployerServiceServer(registrar, r)
	return nil
}

func (r *raw) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (r *raw) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	switch r.name {
	case "deaf":
		leave("asked", strconv.Itoa(os.Getpid()))
		sleep()
	case "dies":
		os.Exit(5)
	case "nameless":
		return &deployerv1.GetInfoResponse{}, nil
	case "verbose":
		return &deployerv1.GetInfoResponse{Name: strings.Repeat("n", 5<<20), DeployItemTypes: r.types}, nil
	}
	out := &deployerv1.GetInfoResponse{Name: r.name, Version: "v0", DeployItemTypes: r.types,
		Capabilities: &deployerv1.Capabilities{}}
	out.Capabilities.Watch = r.name == "waking"
	if strings.HasSuffix(r.name, "hooked") {
		out.Capabilities.HookTypes = []string{"End", "Start"}
		out.HookedDeployItemTypes = append([]string{string(echoType)}, r.types...)
	}
	out.Capabilities.Configure = r.name == "choosy" || r.name == "easygoing"
	return out, nil
}

func (r *raw) Configure(_ context.Context, in *deployerv1.ConfigureRequest) (*deployerv1.ConfigureResponse, error) {
	leave("config", string(in.GetDocument()))
	out := &deployerv1.ConfigureResponse{}
	if r.name == "choosy" {
		out.Problems = []*deployerv1.Problem{{Field: "a.b", Message: "is missing"}, {Field: "c", Message: "is wrong"}}
	}
	return out, nil
}

// Watch sends one wake-up and ends the stream, so that the host must ask again.
func (r *raw) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	return stream.Send(&deployerv1.WatchResponse{Namespace: "default", Name: fmt.Sprintf("item%d", count())})
}

func (r *raw) Reconcile(stream grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	switch itemName(first.GetStart().GetDeployItem()) {
	case "hang":
		sleep()
	case "beat":
		for {
			err := stream.Send(&deployerv1.PluginMessage{
				Content: &deployerv1.PluginMessage_Heartbeat{Heartbeat: &deployerv1.Heartbeat{}},
			})
			if err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	case "ail":
		unhealthy.Store(true)
	case "recover":
		unhealthy.Store(false)
	}
	return stream.Send(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: &deployerv1.Result{
		Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}},
	}}})
}

// itemName finds the name of an item without a decoder, as a plugin in another language might.
func itemName(item []byte) string {
	_, rest, _ := strings.Cut(string(item), `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
