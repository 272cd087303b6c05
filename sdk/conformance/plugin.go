package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Plugin is a plugin that is called as the host calls it. Start and Attach make one. Its methods may be called from several
// goroutines.
type Plugin struct {
	conn    *grpc.ClientConn
	service deployerv1.DeployerServiceClient
	limits  limits
	// run is the process, if it was started here.
	run *run
}

// Attach connects to a plugin that serves without TLS at an address such as "unix:///tmp/hello/plugin.sock". It does not wait
// for the plugin: a wrong address shows with the first call. Close ends the connection and leaves the plugin alone.
func Attach(address string) (*Plugin, error) {
	conn, err := dial(address, insecure.NewCredentials())
	if err != nil {
		return nil, fmt.Errorf("attach to plugin: %w", err)
	}
	return &Plugin{conn: conn, service: deployerv1.NewDeployerServiceClient(conn), limits: usualLimits()}, nil
}

// Close ends the connection, and a process that was started here together with whatever that has started: in order if it
// listens, by force if it does not. It returns when nothing is left of them, some seconds later at most. Closing again has no effect.
func (p *Plugin) Close() {
	if p.run != nil {
		p.run.close(p.conn)
	}
	_ = p.conn.Close() // there is nobody to tell
}

func dial(address string, creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		))
}

// Info is what a plugin tells about itself.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, and of the sdk that it was built with.
	Version, SDKVersion string
	// Types of deploy items that it serves; none for a plugin that brings nothing but hooks.
	Types []v1alpha1.DeployItemType
	// HookedTypes of deploy items that its hooks run for; none if these are those that it serves.
	HookedTypes []v1alpha1.DeployItemType
	// Capabilities are the optional parts of the protocol that it implements.
	Capabilities Capabilities
	// ConfigSchema is the JSON schema of the plugin's own configuration document; empty for none.
	ConfigSchema []byte
	// ProviderConfigSchemas are the JSON schemas of provider configurations.
	ProviderConfigSchemas map[v1alpha1.DeployItemType][]byte
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Diff, Validate, Configure, Watch bool
	// ContextCredentials come with its calls.
	ContextCredentials bool
	// HostCluster: the plugin asks for the access to the cluster that the host runs in.
	HostCluster bool
	// Collect: it tells what it keeps outside of its items' targets, and removes what nobody needs any more.
	Collect bool
	// Hooks are the types for which at least one function is registered.
	Hooks []hook.Type
}

// Info asks the plugin who it is and what it can do. A plugin that does not answer within ten seconds is an error.
func (p *Plugin) Info(ctx context.Context) (*Info, error) {
	in, err := p.getInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("get info: %w", err)
	}
	return infoFromWire(in), nil
}

func (p *Plugin) getInfo(ctx context.Context) (*deployerv1.GetInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.answer)
	defer cancel()
	return p.service.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: "conformance"})
}

func infoFromWire(in *deployerv1.GetInfoResponse) *Info {
	capabilities := in.GetCapabilities()
	info := &Info{
		Name:       in.GetName(),
		Version:    in.GetVersion(),
		SDKVersion: in.GetSdkVersion(),
		Capabilities: Capabilities{
			Abort:          capabilities.GetAbort(),
			ForceReconcile: capabilities.GetForceReconcile(),
			Render:         capabilities.GetRender(),
			Diff:           capabilities.GetDiff(),
			Validate:       capabilities.GetValidate(),
			Configure:      capabilities.GetConfigure(),
			Watch:          capabilities.GetWatch(),

			ContextCredentials: capabilities.GetContextCredentials(),
			HostCluster:        capabilities.GetHostCluster(),
			Collect:            capabilities.GetCollect(),
		},
		ConfigSchema:          in.GetConfigurationSchema(),
		ProviderConfigSchemas: map[v1alpha1.DeployItemType][]byte{},
	}
	for _, t := range in.GetDeployItemTypes() {
		info.Types = append(info.Types, v1alpha1.DeployItemType(t))
	}
	for _, t := range in.GetHookedDeployItemTypes() {
		info.HookedTypes = append(info.HookedTypes, v1alpha1.DeployItemType(t))
	}
	for _, t := range capabilities.GetHookTypes() {
		info.Capabilities.Hooks = append(info.Capabilities.Hooks, hook.Type(t))
	}
	for t, schema := range in.GetProviderConfigurationSchemas() {
		info.ProviderConfigSchemas[v1alpha1.DeployItemType(t)] = schema
	}
	return info
}
