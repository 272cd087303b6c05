package components

import (
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// reasonInvalid is the reason of an error in a component, a blueprint, or the places of components.
	reasonInvalid = "ComponentInvalid"
	// reasonNotFound is the reason for a missing component or content.
	reasonNotFound = "ComponentNotFound"
	// reasonUnauthorized is the reason for missing or refused credentials.
	reasonUnauthorized = "ComponentUnauthorized"
	// reasonUnavailable is the reason for a registry without a proper answer.
	reasonUnavailable = "ComponentUnavailable"
	// reasonLeftOut is the reason of the warning about references without a place.
	reasonLeftOut = "ComponentsLeftOut"
)

var reasons = map[fetch.Kind]string{
	fetch.Invalid: reasonInvalid, fetch.TooLarge: reasonInvalid, fetch.DigestMismatch: reasonInvalid,
	fetch.NotFound:     reasonNotFound,
	fetch.Unauthorized: reasonUnauthorized, fetch.CredentialsMissing: reasonUnauthorized,
	fetch.CredentialsInvalid: reasonUnauthorized,
}

// explain makes an error one for the user; nil for nil.
func explain(err error) error {
	if err == nil {
		return nil
	}
	found := fetch.Explain(err)
	reason, ok := reasons[found.Kind]
	if !ok {
		reason = reasonUnavailable
	}
	return &sdk.Error{Codes: found.Kind.Codes(), Reason: reason, Err: found}
}
