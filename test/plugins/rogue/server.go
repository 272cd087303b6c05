package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/proto/handshake"                      //nolint:depguard // it does without the sdk
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1" //nolint:depguard // it does without the sdk
)

// maxSend is more than the host takes.
const maxSend = 2 * handshake.MaxMessageBytes

// rogue serves the protocol without its rules.
type rogue struct {
	deployerv1.UnimplementedDeployerServiceServer
	goplugin.NetRPCUnsupportedPlugin

	info *deployerv1.GetInfoResponse
}

var (
	_ deployerv1.DeployerServiceServer = (*rogue)(nil)
	_ goplugin.GRPCPlugin              = (*rogue)(nil)
)

// served is closed when the host has asked who the plugin is, and so when the handshake is over.
var served = make(chan struct{})

func serve(r *rogue) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{
			handshake.ProtocolVersion: {handshake.PluginName: r},
		},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts,
				grpc.MaxRecvMsgSize(handshake.MaxMessageBytes), grpc.MaxSendMsgSize(maxSend), grpc.ForceServerCodecV2(corrupting{}))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// GRPCServer registers the service.
func (r *rogue) GRPCServer(_ *goplugin.GRPCBroker, registrar *grpc.Server) error {
	deployerv1.RegisterDeployerServiceServer(registrar, r)
	return nil
}

// GRPCClient is for hosts.
func (r *rogue) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin has no client")
}

// Reconcile does what the item asks for.
func (r *rogue) Reconcile(stream grpc.BidiStreamingServer[deployerv1.ReconcileRequest, deployerv1.ReconcileResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	return carryOut(&call{
		Context: stream.Context(),
		item:    itemOf(first.GetMessage()),
		send: func(m *deployerv1.PluginMessage) error {
			return stream.Send(&deployerv1.ReconcileResponse{Message: m})
		},
	})
}

// Delete does what the item asks for.
func (r *rogue) Delete(stream grpc.BidiStreamingServer[deployerv1.DeleteRequest, deployerv1.DeleteResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	return carryOut(&call{
		Context: stream.Context(),
		item:    itemOf(first.GetMessage()),
		send: func(m *deployerv1.PluginMessage) error {
			return stream.Send(&deployerv1.DeleteResponse{Message: m})
		},
	})
}

// item is what the rogue reads of a deploy item.
type item struct {
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Config struct {
			Do string `json:"do"`
		} `json:"config"`
	} `json:"spec"`
}

func itemOf(m *deployerv1.HostMessage) *item {
	out := &item{}
	if err := json.Unmarshal(m.GetStart().GetDeployItem(), out); err != nil {
		os.Exit(1) // that is not the misbehaviour that was asked for
	}
	return out
}
