package target

import (
	"fmt"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reason tells what is wrong, in one word for machines.
type Reason string

// The reasons of an Error.
const (
	// ReasonTargetNotFound: there is no such Target. The caller fails the item.
	ReasonTargetNotFound Reason = "NoTargetFound"
	// ReasonSecretNotFound: there is no secret of the name that the Target's secretRef says. Worth another try: a
	// secret often arrives a moment after its Target.
	ReasonSecretNotFound Reason = "TargetSecretNotFound"
	// ReasonSecretKeyNotFound: the secret has no such key.
	ReasonSecretKeyNotFound Reason = "TargetSecretKeyNotFound"
	// ReasonContentInvalid: the content of the Target is missing, or cannot be understood.
	ReasonContentInvalid Reason = "TargetContentInvalid"
	// ReasonForbidden: the content of the Target is understood and not allowed.
	ReasonForbidden Reason = "TargetForbidden"
	// ReasonServiceAccountNotFound: there is no ServiceAccount of the name that the content says. Worth another try.
	ReasonServiceAccountNotFound Reason = "TargetServiceAccountNotFound"
	// ReasonTokenForbidden: the API server does not let the host have a token for the ServiceAccount. Worth another
	// try, since it is not the Target that must change.
	ReasonTokenForbidden Reason = "TargetTokenForbidden"
	// ReasonContextNotFound: there is no such Context. Worth another try, as Landscaper creates Contexts.
	ReasonContextNotFound Reason = "ContextNotFound"
)

// maxProblems bounds the problems that are kept, maxReported those in an error text, which ends up in the status of an
// object.
const (
	maxProblems = 100
	maxReported = 10
)

// Error says that the Target or the Context of an item is missing or cannot be used. Failures of the API server are not
// Errors; they are returned wrapped as they came.
type Error struct {
	// Reason is what the caller branches on: ReasonTargetNotFound and ReasonContextNotFound say that the object itself
	// is missing, all others that it exists and cannot be used.
	Reason Reason
	// Kind of the object: Target or Context.
	Kind string
	// Namespace and Name of the object.
	Namespace, Name string
	// Problems are all that is wrong: at least one, at most the first hundred.
	Problems []Problem
	// Err is the answer of the API server if something was not found or not allowed by it, otherwise nil.
	Err error
}

// Problem is one thing that is wrong.
type Problem struct {
	// Reason of this problem alone.
	Reason Reason
	// Field where it was found: of the object, or of its content; empty for the object as a whole.
	Field string
	// Message says what was found and what to do. It holds no part of the content.
	Message string
}

// Error names the object, and field and message of each problem.
func (e *Error) Error() string {
	reported := make([]string, 0, maxReported+1)
	for i, problem := range e.Problems {
		if i == maxReported {
			reported = append(reported, fmt.Sprintf("and %d more", len(e.Problems)-i))
			break
		}
		reported = append(reported, problem.String())
	}
	text := strings.Join(reported, ", ")
	if len(reported) > 1 {
		text = "[" + text + "]"
	}
	return fmt.Sprintf("%s %q: %s", e.Kind, e.Namespace+"/"+e.Name, text)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Code classifies the error for the status of an item: ERR_CONFIGURATION_PROBLEM if trying again makes no sense until
// somebody changes the Target or its secret; empty if something is missing that may still come, and for a missing
// Target, which Landscaper reports without a code.
func (e *Error) Code() v1alpha1.ErrorCode {
	switch e.Reason {
	case ReasonSecretKeyNotFound, ReasonContentInvalid, ReasonForbidden:
		return v1alpha1.ErrorConfigurationProblem
	case ReasonTargetNotFound, ReasonSecretNotFound, ReasonContextNotFound, ReasonServiceAccountNotFound,
		ReasonTokenForbidden:
		return ""
	}
	return ""
}

// String returns field and message.
func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// reasonOf returns the reason of an error with these problems: what is forbidden counts more than what is malformed.
func reasonOf(problems []Problem) Reason {
	for _, problem := range problems {
		if problem.Reason == ReasonForbidden {
			return ReasonForbidden
		}
	}
	return problems[0].Reason
}

func invalid(field, format string, args ...any) Problem {
	return Problem{Reason: ReasonContentInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

func forbidden(field, message string) Problem {
	return Problem{Reason: ReasonForbidden, Field: field, Message: message}
}
