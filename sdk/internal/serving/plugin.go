package serving

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// plugin registers the server with go-plugin. The client side belongs to the host.
type plugin struct {
	goplugin.NetRPCUnsupportedPlugin

	service deployerv1.DeployerServiceServer
}

var _ goplugin.GRPCPlugin = (*plugin)(nil)

// GRPCServer implements goplugin.GRPCPlugin.
func (p *plugin) GRPCServer(_ *goplugin.GRPCBroker, registrar *grpc.Server) error {
	deployerv1.RegisterDeployerServiceServer(registrar, p.service)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin.
func (p *plugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the sdk has no client of the protocol")
}
