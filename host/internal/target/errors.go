package target

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reason is the kind of an Error, in one word for machines.
type Reason string

// The reasons of an Error.
const (
	// ReasonTargetNotFound: there is no such Target. The caller fails the item.
	ReasonTargetNotFound Reason = "NoTargetFound"
	// ReasonSecretNotFound: the secret of the Target's secretRef does not exist. Worth another try: a secret often
	// arrives a moment after its Target.
	ReasonSecretNotFound Reason = "TargetSecretNotFound"
	// ReasonSecretKeyNotFound: the secret has no such key.
	ReasonSecretKeyNotFound Reason = "TargetSecretKeyNotFound"
	// ReasonContentInvalid: the content of the Target is missing, or cannot be understood.
	ReasonContentInvalid Reason = "TargetContentInvalid"
	// ReasonForbidden: the content of the Target is understood and not allowed.
	ReasonForbidden Reason = "TargetForbidden"
	// ReasonServiceAccountNotFound: the ServiceAccount named by the content does not exist. Worth another try.
	ReasonServiceAccountNotFound Reason = "TargetServiceAccountNotFound"
	// ReasonTokenForbidden: the API server refuses the host a token for the ServiceAccount. Worth another try: a right
	// is missing, and the Target is sound.
	ReasonTokenForbidden Reason = "TargetTokenForbidden"
	// ReasonContextNotFound: there is no such Context. Worth another try, as Landscaper creates Contexts.
	ReasonContextNotFound Reason = "ContextNotFound"
)

// maxProblems bounds the problems kept by a parser, maxReported those in an error text, for the status of an object.
const (
	maxProblems = 100
	maxReported = 10
)

// Error says that the Target or the Context of an item is missing or cannot be used. Failures of the API server are not
// Errors; they are returned wrapped as they came.
type Error struct {
	// Reason is for callers to branch on: with ReasonTargetNotFound and ReasonContextNotFound the object itself is
	// missing, with all others it exists and cannot be used.
	Reason Reason
	// Err is the answer of the API server if something was not found or not allowed by it, otherwise nil.
	Err error

	text string
}

// problem is one fault of an object.
type problem struct {
	reason Reason
	// field where it was found: of the object, or of its content; empty for the object as a whole.
	field string
	// message describes the fault and its remedy. It holds no part of the content.
	message string
}

// newError returns the error for an object with at least one problem. Forbidden content counts more than malformed
// content.
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

// Code classifies the error for the status of an item: ERR_CONFIGURATION_PROBLEM if only a change of the Target or its
// secret can help; empty for a missing object that may still come, and for a missing Target, reported by Landscaper
// without a code.
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
