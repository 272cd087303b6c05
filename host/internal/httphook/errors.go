package httphook

import (
	"fmt"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reason tells why a hook has failed, in one word for machines.
type Reason string

// The reasons of an Error.
const (
	// ReasonUnreachable: there is no answer, because of the network, the name service or TLS.
	ReasonUnreachable Reason = "HookUnreachable"
	// ReasonTimeout: there was no whole answer in time.
	ReasonTimeout Reason = "HookTimeout"
	// ReasonFailed: the hook has answered that it failed.
	ReasonFailed Reason = "HookFailed"
	// ReasonPermanentError: the hook has answered that it failed and that asking again makes no sense.
	ReasonPermanentError Reason = "HookPermanentError"
	// ReasonContractViolation: the answer is none of the Hooks API, or wants what no hook may.
	ReasonContractViolation Reason = "HookContractViolation"
	// ReasonRequestTooLarge: the item and its children are more than a hook is asked about.
	ReasonRequestTooLarge Reason = "HookRequestTooLarge"
)

// Error says that a hook has failed.
type Error struct {
	// Registration is the name of the DeployerRegistration.
	Registration string
	// Phase in which the hook was called.
	Phase v1alpha1.HookCapability
	// URL that was called, without the query.
	URL string
	// Code is the HTTP status of the answer; zero without an answer.
	Code int
	// Reason is what the caller branches on, beside Permanent and Continue.
	Reason Reason
	// Message says what was found, and is that of the hook if it has given one. It is bounded, and without control characters.
	Message string
	// Permanent: asking again makes no sense until something is changed. Never together with Continue.
	Permanent bool
	// Continue: the hook wants the reconcile or the deletion to go on as if it had not been asked.
	Continue bool
	// Err is the cause, if there is one. Its text may hold what is not for users; do not print it.
	Err error
}

// Error names the registration, the phase and the address.
func (e *Error) Error() string {
	return fmt.Sprintf("hook of DeployerRegistration %q (%s, POST %s): %s", e.Registration, e.Phase, e.URL, e.Message)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
