package target

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

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

// maxProblems bounds the problems that a parser keeps, maxReported those in an error text, which ends up in the status
// of an object.
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
	// Err is the answer of the API server if something was not found or not allowed by it, otherwise nil.
	Err error

	text string
}

// problem is one thing that is wrong.
type problem struct {
	reason Reason
	// field where it was found: of the object, or of its content; empty for the object as a whole.
	field string
	// message says what was found and what to do. It holds no part of the content.
	message string
}

// newError returns the error for an object with at least one problem. What is forbidden counts more than what is
// malformed.
func newError(kind string, name types.NamespacedName, cause error, problems ...problem) *Error {
	reason := problems[0].reason
	var reported []string
	for i, p := range problems {
		if p.reason == ReasonForbidden {
			reason = ReasonForbidden
		}
		if i < maxReported {
			reported = append(reported, p.String())
		}
	}
	if more := len(problems) - maxReported; more > 0 {
		reported = append(reported, fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(reported, ", ")
	if len(reported) > 1 {
		text = "[" + text + "]"
	}
	return &Error{Reason: reason, Err: cause, text: fmt.Sprintf("%s %q: %s", kind, name, text)}
}

// Error names the object, and field and message of each problem.
func (e *Error) Error() string { return e.text }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Code classifies the error for the status of an item: ERR_CONFIGURATION_PROBLEM if trying again makes no sense until
// somebody changes the Target or its secret; empty if something is missing that may still come, and for a missing
// Target, which Landscaper reports without a code.
func (e *Error) Code() v1alpha1.ErrorCode {
	if slices.Contains([]Reason{ReasonSecretKeyNotFound, ReasonContentInvalid, ReasonForbidden}, e.Reason) {
		return v1alpha1.ErrorConfigurationProblem
	}
	return ""
}

func (p problem) String() string {
	if p.field == "" {
		return p.message
	}
	return p.field + ": " + p.message
}

func invalid(field, format string, args ...any) problem {
	return problem{reason: ReasonContentInvalid, field: field, message: fmt.Sprintf(format, args...)}
}

func forbidden(field, message string) problem {
	return problem{reason: ReasonForbidden, field: field, message: message}
}
