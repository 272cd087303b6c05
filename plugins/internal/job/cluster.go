package job

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// SameCluster returns an error with sdk.ReasonTargetChanged if the Target leads to another cluster than before: the
// deployed objects would seem to be gone there. The UIDs of a namespace identify the clusters; an unknown one, empty,
// proves nothing. annotation has the deploy item deleted without its objects.
func (j *Job) SameCluster(namespace string, before, found types.UID, annotation string) error {
	if before == "" || found == "" || found == before {
		return nil
	}
	return sdk.ConfigurationError(sdk.ReasonTargetChanged, "Target %q leads to another cluster than before: the "+
		"namespace %s had the UID %s there, and has %s here; restore the Target, or set the annotation %s: %q to delete "+
		"the deploy item and leave its objects on the other cluster",
		j.Request.Target.Name, namespace, before, found, annotation, "true")
}

// IsOtherCluster reports whether an error is one of SameCluster.
func IsOtherCluster(err error) bool {
	var known *sdk.Error
	return errors.As(err, &known) && known.Reason == sdk.ReasonTargetChanged
}

// Connect returns the client for the Target of a request, and the lookup of clients for other Targets of the deploy
// item's namespace; an empty name means the item's own Target. No part of a Target's content gets into their errors.
// For content unfit for a client they are configuration errors with sdk.ReasonTargetInvalid.
func Connect(req *sdk.Request, clients *target.Cache) (*target.Client, target.Lookup, error) {
	own, err := clients.For(req.Target)
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
		return clients.For(other)
	}, nil
}
