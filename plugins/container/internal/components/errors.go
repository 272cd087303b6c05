package components

import (
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// reasonInvalid is given to the error about a component or a blueprint that has to be changed, or what says where it
	// is.
	reasonInvalid = "ComponentInvalid"
	// reasonNotFound is given to the error about a component or content that is not there yet.
	reasonNotFound = "ComponentNotFound"
	// reasonUnauthorized is given to the error about credentials for a registry.
	reasonUnauthorized = "ComponentUnauthorized"
	// reasonUnavailable is given to the error about a registry that does not answer as it should.
	reasonUnavailable = "ComponentUnavailable"
	// reasonLeftOut is given to the warning about references that nothing says the place of.
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
