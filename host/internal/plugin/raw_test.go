package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
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
	out.Capabilities.Diff = r.name == "differ"
	out.Capabilities.HostCluster, out.Capabilities.Collect = r.name == "keeper", r.name == "keeper"
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
	send := stream.Send
	switch itemName(first.GetStart().GetDeployItem()) {
	case "nothing":
		return nil
	case "no-outcome":
		return send(result(&deployerv1.Result{}))
	case "no-result":
		return send(result(nil))
	case "latin-1":
		// As of a library that does not check what it sends: message is field 2 of Progress, which is field 1.
		text := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "Gr\xfcn")
		m := &deployerv1.PluginMessage{}
		m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), text))
		return send(m)
	case "refusal":
		return status.Error(codes.FailedPrecondition, strings.Repeat("ü", hostside.MaxMessage))
	case "crash":
		os.Exit(7)
	case "crashes2":
		if count() <= 2 {
			os.Exit(7)
		}
	case "hang":
		if err := send(progress("hanging", "for ever")); err != nil {
			return err
		}
		sleep()
	case "beat":
		for {
			if err := send(heartbeat()); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	case "hold":
		if err := send(progress("holding", "until it is let go")); err != nil {
			return err
		}
		for _, err := os.Stat(trace("go")); err != nil && stream.Context().Err() == nil; _, err = os.Stat(trace("go")) {
			time.Sleep(time.Millisecond)
		}
	case "ail":
		unhealthy.Store(true)
	case "recover":
		unhealthy.Store(false)
	case "talkative":
		return errors.Join(send(succeeded([]byte("{}"))), send(failed()), send(succeeded(nil)))
	case "lingering":
		err := send(succeeded([]byte("{}")))
		<-stream.Context().Done()
		leave("lingered", "yes")
		return err
	case "unknown":
		unknown := &deployerv1.PluginMessage{}
		unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
		for _, m := range []*deployerv1.PluginMessage{{}, unknown} {
			if err := send(m); err != nil {
				return err
			}
		}
	case "save-and-hang":
		if err := send(saved(1)); err != nil {
			return err
		}
		sleep()
	case "save-and-go":
		if err := send(saved(1)); err != nil {
			return err
		}
	case "40MiB":
		return send(succeeded(make([]byte, 40<<20)))
	case "65MiB":
		return send(succeeded(make([]byte, 65<<20)))
	case "5MiB":
		if err := send(progress(strings.Repeat("ü", 5<<19), strings.Repeat("€", 5<<18))); err != nil {
			return err
		}
	}
	return send(succeeded(nil))
}

func result(r *deployerv1.Result) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: r}}
}

func heartbeat() *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Heartbeat{Heartbeat: &deployerv1.Heartbeat{}}}
}

func failed() *deployerv1.PluginMessage {
	return result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{}}})
}

func succeeded(exports []byte) *deployerv1.PluginMessage {
	return result(
		&deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: exports}}},
	)
}

func progress(step, message string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{
		Progress: &deployerv1.Progress{Step: step, Message: message},
	}}
}

func saved(sequence uint64) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: []byte("{}")},
	}}
}

// RunHooks misbehaves as the name of the item says.
func (r *raw) RunHooks(_ context.Context, in *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	none := &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	out := &deployerv1.RunHooksResponse{}
	switch itemName(in.GetDeployItem()) {
	case "crash":
		os.Exit(7)
	case "refusal":
		return nil, status.Error(codes.FailedPrecondition, strings.Repeat("ü", hostside.MaxMessage))
	case "empty":
		out.Outcomes = []*deployerv1.HookOutcome{none, {}}
	case "many":
		out.Outcomes = slices.Repeat([]*deployerv1.HookOutcome{none}, 100+1)
	case "huge":
		out.Outcomes = []*deployerv1.HookOutcome{hookFailure(strings.Repeat("x", 1<<20))}
	case "long":
		out.Outcomes = []*deployerv1.HookOutcome{hookFailure(strings.Repeat("x", 1<<20/2))}
	case "past":
		out.Outcomes = []*deployerv1.HookOutcome{{Outcome: &deployerv1.HookOutcome_Result{
			Result: &deployerv1.HookResult{RequeueAfter: durationpb.New(-time.Hour)},
		}}}
	}
	return out, nil
}

func hookFailure(message string) *deployerv1.HookOutcome {
	return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{Error: &deployerv1.Error{Message: message}}}
}

// itemName finds the name of an item without a decoder, as a plugin in another language might.
func itemName(item []byte) string {
	_, rest, _ := strings.Cut(string(item), `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
