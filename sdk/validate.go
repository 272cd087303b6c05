package sdk

import (
	"context"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
)

// Validate implements DeployerServiceServer.
func (s *server) Validate(
	ctx context.Context, in *deployerv1.ValidateRequest,
) (*deployerv1.ValidateResponse, error) {
	start, err := message.ReadValidation(in)
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, "Validate", start, Validator.Validate, validatedToWire)
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
