package job

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// Connect returns the client for the Target of a request, and the lookup of clients for other Targets of the deploy
// item's namespace; an empty name stands for the own Target. No part of a Target's content gets into their errors.
// For content unfit for a client they are configuration errors with sdk.ReasonTargetInvalid.
func Connect(req *sdk.Request, clients *target.Cache) (*target.Client, target.Lookup, error) {
	own, err := clientFor(req.Target, clients)
	if err != nil {
		return nil, nil, err
	}
	return own, func(ctx context.Context, name string) (*target.Client, error) {
		if name == "" {
			return own, nil
		}
		other, err := req.ResolveTarget(ctx, name)
		if err != nil {
			return nil, err
		}
		return clientFor(other, clients)
	}, nil
}

func clientFor(of *sdk.Target, clients *target.Cache) (*target.Client, error) {
	kubeconfig, err := of.Kubeconfig()
	if err != nil {
		return nil, err
	}
	client, err := clients.Get(kubeconfig)
	if err != nil {
		return nil, sdk.ConfigurationError(sdk.ReasonTargetInvalid, "Target %q: %w", of.Name, err)
	}
	return client, nil
}
