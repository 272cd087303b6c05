package sdk

import (
	"context"
	"encoding/json"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Validate implements DeployerServiceServer.
func (s *server) Validate(
	ctx context.Context, in *deployerv1.ValidateRequest,
) (*deployerv1.ValidateResponse, error) {
	start, err := validatedStart(in)
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, "Validate", start, Validator.Validate, validatedToWire)
}

// validatedStart returns the start of a Validate. The request of an older host has nothing but type and configuration.
func validatedStart(in *deployerv1.ValidateRequest) (*deployerv1.Start, error) {
	start := in.GetStart()
	if start == nil {
		item := &v1alpha1.DeployItem{}
		item.Spec.Type = v1alpha1.DeployItemType(in.GetDeployItemType())
		document, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		start = &deployerv1.Start{DeployItem: document}
	}
	start.ProviderConfiguration = in.GetProviderConfiguration()
	return start, nil
}

// validatedToWire describes the end of Validate. Its error has the operation of Reconcile, which would return it, too.
func validatedToWire(res *ValidateResponse, err error) *deployerv1.ValidateResponse {
	out := &deployerv1.ValidateResponse{}
	problems := ProblemsOf(err)
	if err != nil {
		out.Failed = failedToWire("Reconcile", err)
	} else if res != nil {
		problems = res.Problems
	}
	out.Problems = wire.Each(problems, problemToWire)
	return out
}
