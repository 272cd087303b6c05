package registration

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The reasons why a hook cannot be called, or a registration is not ready.
const (
	// ReasonStarting: the registrations are not known yet.
	ReasonStarting = "Starting"
	// ReasonInvalid: the spec is wrong. The message names each field.
	ReasonInvalid = "Invalid"
	// ReasonTypeTaken: an older registration has a hook for one of the types.
	ReasonTypeTaken = "TypeTaken"
	// ReasonAddressNotResolved: the object that the address refers to is not there, or says no URL that can be used.
	ReasonAddressNotResolved = "AddressNotResolved"
	// ReasonSecretNotFound: a secret is not there.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: a secret does not have what it should.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonSecretUnreadable: the API server did not give a secret out.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonNoDeployer: no plugin serves one of the types.
	ReasonNoDeployer = "NoDeployer"
)

// NotReadyError says that a type has a hook that cannot be called at present.
type NotReadyError struct {
	// Registration is the name of the DeployerRegistration; empty with ReasonStarting.
	Registration string
	// Reason is one of the constants.
	Reason string
	// Message is a sentence for people, without secrets.
	Message string
	// Capabilities are those of the hook; see Concerns.
	Capabilities []v1alpha1.HookCapability
	// Err is the cause; nil if there is none but the registration itself.
	Err error
}

// Error implements error.
func (e *NotReadyError) Error() string {
	if e.Registration == "" {
		return "HTTP hooks are not ready: " + e.Message
	}
	return fmt.Sprintf("the HTTP hook of DeployerRegistration %q is not ready: %s", e.Registration, e.Message)
}

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Err }

// Concerns tells whether the hook is, or may be, one that is called in a phase. What is not known, or wrong, may be.
func (e *NotReadyError) Concerns(phase v1alpha1.HookCapability) bool {
	return e.Reason == ReasonStarting || e.Reason == ReasonInvalid || slices.Contains(e.Capabilities, phase)
}

// says tells whether an error says the same as another one.
func (e *NotReadyError) says(other *NotReadyError) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Registration == other.Registration && e.Reason == other.Reason && e.Message == other.Message && slices.Equal(e.Capabilities, other.Capabilities)
}

// bounded cuts a text that has more bytes than limit, between two characters, and shows that it did.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
