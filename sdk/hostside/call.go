package hostside

import (
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
)

// Call is the input of an operation.
type Call struct {
	// DeployItem with its status. Required.
	DeployItem *v1alpha1.DeployItem
	JobID      string
	// Forced: a user forces the job.
	Forced bool
	// Children replace the desired objects of the plugin; nil keeps them.
	Children []sdk.Child
	// Claims of other items on what this one holds, for a deletion.
	Claims []sdk.Claim

	// Target of the item, or nil.
	Target *v1alpha1.ResolvedTarget
	// Context of the item, without credentials; may be nil.
	Context *v1alpha1.Context

	// Credentials and OCMConfig belong to the Context; HostCluster and Installation to the host. Nil or empty if the
	// plugin gets none.
	Credentials  *sdk.Credentials
	OCMConfig    *sdk.OCMConfig
	HostCluster  *sdk.HostCluster
	Installation string
}

// Start returns the input as a message. separate sends the provider configuration and the provider status beside the
// deploy item.
func (c *Call) Start(separate bool) (*deployerv1.Start, error) {
	start := &deployerv1.Start{
		JobId:        c.JobID,
		Forced:       c.Forced,
		Children:     childrenToWire(c.Children),
		Credentials:  credentialsToWire(c.Credentials),
		OcmConfig:    ocmConfigToWire(c.OCMConfig),
		HostCluster:  HostCluster(c.HostCluster),
		Installation: c.Installation,
		Claims: wire.Each(c.Claims, func(c sdk.Claim) *deployerv1.Claim {
			return &deployerv1.Claim{DeployItem: c.DeployItem, What: c.What}
		}),
	}
	documents := message.OfCall{DeployItem: c.DeployItem, Target: c.Target, Context: c.Context}
	return start, documents.Write(start, separate)
}

// childrenToWire tells unchanged children (nil) from none (empty).
func childrenToWire(in []sdk.Child) *deployerv1.Children {
	if in == nil {
		return nil
	}
	return &deployerv1.Children{Children: wire.Each(in, func(c sdk.Child) *deployerv1.Child {
		return &deployerv1.Child{Name: c.Name, Object: c.Object}
	})}
}

func credentialsToWire(in *sdk.Credentials) *deployerv1.Credentials {
	if in == nil {
		return nil
	}
	return &deployerv1.Credentials{
		Registries: wire.Each(in.Registries, registryToWire),
		ChartRepositories: wire.Each(in.ChartRepositories,
			func(r sdk.ChartRepositoryCredentials) *deployerv1.ChartRepositoryCredentials {
				return &deployerv1.ChartRepositoryCredentials{
					Url: r.URL, CaData: r.CAData, AuthHeader: r.AuthHeader, Error: r.Problem,
				}
			}),
	}
}

func registryToWire(in sdk.RegistryCredentials) *deployerv1.RegistryCredentials {
	return &deployerv1.RegistryCredentials{Secret: in.Secret, DockerConfig: in.DockerConfig, Error: in.Problem}
}

func ocmConfigToWire(in *sdk.OCMConfig) *deployerv1.OCMConfig {
	if in == nil {
		return nil
	}
	return &deployerv1.OCMConfig{ConfigMap: in.ConfigMap, Content: in.Content, Error: in.Problem}
}

// HostCluster returns the access to the host cluster as a message; nil for none.
func HostCluster(in *sdk.HostCluster) *deployerv1.HostCluster {
	if in == nil {
		return nil
	}
	return &deployerv1.HostCluster{Kubeconfig: in.Kubeconfig, Namespace: in.Namespace, Installation: in.Installation}
}

// CollectRequest asks a plugin to remove what it keeps for these holdings.
func CollectRequest(cluster *sdk.HostCluster, holdings []sdk.Holding) *deployerv1.CollectRequest {
	return &deployerv1.CollectRequest{
		HostCluster: HostCluster(cluster),
		Holdings: wire.Each(holdings, func(h sdk.Holding) *deployerv1.Holding {
			return &deployerv1.Holding{Namespace: h.Namespace, Name: h.Name, Uid: string(h.UID), JobId: h.JobID}
		}),
	}
}

// HookCall is the input of hook functions.
type HookCall struct {
	Type hook.Type
	// DeployItem and Target may be nil, depending on the type. The plugin gets the Target without spec.config, which may
	// hold credentials.
	DeployItem *v1alpha1.DeployItem
	Target     *v1alpha1.Target
	// Resolved is the Target with its content, for a plugin with the capability HookTargets; nil for none. Problem is
	// why it cannot be used.
	Resolved *v1alpha1.ResolvedTarget
	Problem  *Error
}

// Request returns the input as a message.
func (c *HookCall) Request() (*deployerv1.RunHooksRequest, error) {
	in := &deployerv1.RunHooksRequest{HookType: string(c.Type), TargetProblem: c.Problem.toWire()}
	var resolved *v1alpha1.ResolvedTarget
	if c.Resolved != nil {
		resolved = &v1alpha1.ResolvedTarget{Target: bare(c.Resolved.Target), Content: c.Resolved.Content}
	}
	documents := message.OfHooks{DeployItem: c.DeployItem, Target: bare(c.Target)}
	return in, documents.Write(in, resolved)
}

// bare returns a Target without its configuration; nil for none.
func bare(target *v1alpha1.Target) *v1alpha1.Target {
	if target == nil {
		return nil
	}
	bare := *target
	bare.Spec.Configuration = nil
	return &bare
}
