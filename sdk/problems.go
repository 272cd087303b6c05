package sdk

import (
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
)

// Problem is one error in a document.
type Problem struct {
	// Field is the path of the field, such as "manifests[2].policy"; empty or "spec.config" for the document itself.
	Field string
	// Message names the found value and the expected one.
	Message string
}

// String is the message with the field before it.
func (p Problem) String() string {
	if p.Field == "" || p.Field == specConfig {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// specConfig is the path of the provider configuration in a deploy item.
const specConfig = "spec.config"

// ReasonConfigProblems is a reason for ConfigurationProblems: the provider configuration can be read, but it has
// problems. It is Landscaper's.
const ReasonConfigProblems = "ValidateProviderConfiguration"

// UnreadField is a field of a document without a place in its Go type, or one that is there twice.
type UnreadField = document.Unread

// ConfigurationProblems returns the ConfigurationError about these problems of a provider configuration, and about
// fields from Request.DecodeConfigPartly. Its text has all of them.
func ConfigurationProblems(reason string, problems []Problem, unread ...UnreadField) *Error {
	texts := append(wire.Each(problems, Problem.String), wire.Each(unread, UnreadField.Text)...)
	err := ConfigurationError(reason, "%s: %s", specConfig, strings.Join(texts, "; "))
	err.Problems = slices.Concat(problems, wire.Each(unread, unreadProblem))
	return err
}

func unreadProblem(u UnreadField) Problem { return Problem{Field: u.Field, Message: u.Message()} }

// ProblemsOf returns the problems of a provider configuration in the tree of an error. An Error with the code
// ERR_CONFIGURATION_PROBLEM and without Error.Problems, also below it, is one problem; others are none.
func ProblemsOf(err error) []Problem {
	var all []Problem
	whole := false // the problem is an error and has no other ones beside it
	walk(err, func(e *Error) {
		switch {
		case len(e.Problems) > 0:
			all = append(all, e.Problems...)
		case slices.Contains(e.Codes, v1alpha1.ErrorConfigurationProblem) && len(ProblemsOf(e.Err)) == 0:
			whole = len(all) == 0
			all = append(all, problemOfError(e))
		}
	})
	if whole && len(all) == 1 {
		return []Problem{problemOfError(err)} // with the texts around it
	}
	return all
}

func problemOfError(err error) Problem {
	return Problem{Field: specConfig, Message: strings.TrimPrefix(err.Error(), specConfig+": ")}
}
