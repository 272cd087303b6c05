package session

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// HostCluster gives the access to the cluster of the host; see target.HostCluster. The error is a sentence for user and
// operator.
type HostCluster func(ctx context.Context) (*sdk.HostCluster, error)

// Installation returns the mark of the host's control plane on deployed objects; see target.Installation. It may be
// empty.
type Installation func(ctx context.Context) (string, error)

// Grants are what a plugin gets of the host. Each may be nil.
type Grants struct {
	HostCluster  HostCluster
	Installation Installation
}

// Both errors are without a code, so that the call is tried again.
const (
	operationHostCluster  = "AccessHostCluster"
	reasonHostCluster     = "HostClusterUnavailable"
	operationInstallation = "ReadInstallation"
	reasonInstallation    = "InstallationUnavailable"
)

// access returns the access to the host cluster; nil without a grant. The error is an Error, or that of ctx.
func (g Grants) access(ctx context.Context) (*sdk.HostCluster, error) {
	if g.HostCluster == nil {
		return nil, nil //nolint:nilnil // most plugins get nothing
	}
	cluster, err := g.HostCluster(ctx)
	return cluster, failed(ctx, err, operationHostCluster, reasonHostCluster)
}

// mark returns the installation; empty if unknown. The error is an Error, or that of ctx.
func (g Grants) mark(ctx context.Context) (string, error) {
	if g.Installation == nil {
		return "", nil
	}
	installation, err := g.Installation(ctx)
	return installation, failed(ctx, err, operationInstallation, reasonInstallation)
}

func failed(ctx context.Context, err error, operation, reason string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("call stopped: %w", context.Cause(ctx))
	case err != nil:
		return hostside.Error{Operation: operation, Reason: reason, Message: hostside.Bounded(err.Error())}
	default:
		return nil
	}
}
