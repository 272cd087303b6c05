package sdk

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// specConfig is the path of the provider configuration in a deploy item.
const specConfig = "spec.config"

// ReasonConfigProblems is a reason for ConfigurationProblems: the provider configuration can be read, but it has
// problems. It is Landscaper's.
const ReasonConfigProblems = "ValidateProviderConfiguration"

// ConfigurationProblems returns the ConfigurationError about these problems of a provider configuration. Its text has
// all of them.
func ConfigurationProblems(reason string, problems []Problem) *Error {
	texts := wire.Each(problems, func(p Problem) string {
		if p.Field == "" || p.Field == specConfig {
			return p.Message
		}
		return p.Field + ": " + p.Message
	})
	err := ConfigurationError(reason, "%s: %s", specConfig, strings.Join(texts, "; "))
	err.Problems = problems
	return err
}

// ProblemsOf returns the problems of a provider configuration in the tree of an error. An error with the code
// ERR_CONFIGURATION_PROBLEM and without Error.Problems is one problem; others are none.
func ProblemsOf(err error) []Problem {
	var all []Problem
	walk(err, func(e *Error) { all = append(all, e.Problems...) })
	if len(all) == 0 && slices.Contains(Codes(err), v1alpha1.ErrorConfigurationProblem) {
		all = []Problem{{Field: specConfig, Message: strings.TrimPrefix(err.Error(), specConfig+": ")}}
	}
	return all
}

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
