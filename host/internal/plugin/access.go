package plugin

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk"
)

// HostCluster gives the access to the cluster that the host runs in; see target.HostCluster. The error is a sentence
// for user and operator.
type HostCluster func(ctx context.Context) (*sdk.HostCluster, error)

// The error about an access that is granted and cannot be had at the moment. It has no code, so that the call is tried
// again.
const (
	operationHostCluster = "AccessHostCluster"
	reasonHostCluster    = "HostClusterUnavailable"
)

// Installation tells the deploy items of the host's control plane from those of others; see target.Installation. It is
// empty if nobody knows.
type Installation func(ctx context.Context) (string, error)

// The error about an installation that cannot be told at the moment, without a code as well.
const (
	operationInstallation = "ReadInstallation"
	reasonInstallation    = "InstallationUnavailable"
)

// hostClusterFor returns what gives a plugin the access to the host cluster; nil if it is not to have it.
func (p *Plugin) hostClusterFor(info *Info) HostCluster {
	granted := p.settings.HostClusters[info.Name]
	switch {
	case granted != nil && !info.Capabilities.HostCluster:
		p.log.Warn("the plugin is granted access to the host cluster, which it does not ask for; remove plugins." +
			info.Name + ".hostCluster from the host configuration")
		return nil
	case granted == nil && info.Capabilities.HostCluster:
		p.log.Info("the plugin gets no access to the host cluster, which it asks for; " +
			"plugins." + info.Name + ".hostCluster of the host configuration grants it")
	}
	return granted
}

// access is what the plugin gets of the host cluster; nil without an error if it gets nothing. The error is an Error,
// or that of ctx.
func (p *process) access(ctx context.Context) (*sdk.HostCluster, error) {
	if p.hostCluster == nil {
		return nil, nil //nolint:nilnil // most plugins get nothing
	}
	cluster, err := p.hostCluster(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("call stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, Error{Operation: operationHostCluster, Reason: reasonHostCluster, Message: bounded(err.Error())}
	}
	return cluster, nil
}

// mark is the installation that a plugin puts on what it deploys; empty without an error if nobody knows it. The error
// is an Error, or that of ctx.
func (p *process) mark(ctx context.Context) (string, error) {
	if p.installation == nil {
		return "", nil
	}
	installation, err := p.installation(ctx)
	if ctx.Err() != nil {
		return "", fmt.Errorf("call stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		return "", Error{Operation: operationInstallation, Reason: reasonInstallation, Message: bounded(err.Error())}
	}
	return installation, nil
}
