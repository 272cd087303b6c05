package sdk

import (
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Problem is one error in a document.
type Problem struct {
	// Field is the path of the field, such as "manifests[2].policy"; empty or "spec.config" for the document itself.
	Field string
	// Message names the found value and the expected one.
	Message string
}

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
