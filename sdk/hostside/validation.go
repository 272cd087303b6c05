package hostside

import (
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
)

// maxProblems bounds the problems of a provider configuration.
const maxProblems = 100

// Validation is the answer to Validate. A valid provider configuration has no Errors.
type Validation struct {
	// Errors of a job with this provider configuration, or why it could not be checked.
	Errors []Error
	// Problems of the provider configuration, one by one, for tools that list them; none if it could not be checked.
	Problems []sdk.Problem
}

// ValidateRequest asks to check the provider configuration of the start of a call.
func ValidateRequest(call *Call, separate bool) (*deployerv1.ValidateRequest, error) {
	start, err := call.Start(separate)
	if err != nil {
		return nil, err
	}
	return message.WriteValidation(call.DeployItem, start), nil
}

// ReadValidation reads the answer to Validate.
func ReadValidation(in *deployerv1.ValidateResponse) *Validation {
	all := in.GetProblems()
	v := &Validation{Problems: wire.Each(all[:min(len(all), maxProblems)], ReadProblem)}
	switch {
	case in.GetFailed() != nil:
		v.Errors = ReadErrors(in.GetFailed())
	case len(v.Problems) > 0:
		err := sdk.ConfigurationProblems(sdk.ReasonConfigProblems, v.Problems)
		v.Errors = []Error{{
			Codes: err.Codes, Operation: "Reconcile", Reason: err.Reason, Message: Bounded(err.Error()),
		}}
	}
	return v
}
