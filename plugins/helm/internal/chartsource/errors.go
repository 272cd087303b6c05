package chartsource

import (
	"errors"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

// Operation is that of all errors.
const Operation = "FetchChart"

// Reasons that are given to errors. The package's documentation says what becomes of each.
const (
	// ReasonSourceInvalid: the source cannot be right.
	ReasonSourceInvalid = "ChartSourceInvalid"
	// ReasonResolverMissing: nobody knows the component model.
	ReasonResolverMissing = "ChartResolverMissing"
	// ReasonResolveFailed: the resolver has failed.
	ReasonResolveFailed = "ChartResolveFailed"
	// ReasonComponentInvalid: the component version leads to no chart.
	ReasonComponentInvalid = "ChartComponentInvalid"
	// ReasonArchiveInvalid: what is there is no chart.
	ReasonArchiveInvalid = "ChartArchiveInvalid"
	// ReasonTooLarge: it is larger than allowed.
	ReasonTooLarge = "ChartTooLarge"
	// ReasonDigestMismatch: its digest is not what it should be.
	ReasonDigestMismatch = "ChartDigestMismatch"
	// ReasonUnauthorized: the server refuses the credentials.
	ReasonUnauthorized = "ChartUnauthorized"
	// ReasonCredentialsMissing: the server wants credentials and there are none.
	ReasonCredentialsMissing = "ChartCredentialsMissing"
	// ReasonCredentialsInvalid: there are credentials that cannot be used.
	ReasonCredentialsInvalid = "ChartCredentialsInvalid"
	// ReasonNotFound: there is no such chart, or version.
	ReasonNotFound = "ChartNotFound"
	// ReasonUnavailable: no answer, or one that says try again.
	ReasonUnavailable = "ChartUnavailable"
	// ReasonCache: the disk.
	ReasonCache = "ChartCacheFailed"
	// ReasonPanic: a mistake in the deployer.
	ReasonPanic = "ChartFetchPanic"
)

// reasons are those of the errors of package fetch.
var reasons = map[fetch.Kind]string{
	fetch.Invalid:            ReasonArchiveInvalid,
	fetch.TooLarge:           ReasonTooLarge,
	fetch.DigestMismatch:     ReasonDigestMismatch,
	fetch.Unauthorized:       ReasonUnauthorized,
	fetch.CredentialsMissing: ReasonCredentialsMissing,
	fetch.CredentialsInvalid: ReasonCredentialsInvalid,
	fetch.NotFound:           ReasonNotFound,
	fetch.Unavailable:        ReasonUnavailable,
	fetch.CacheFailed:        ReasonCache,
	fetch.Panic:              ReasonPanic,
}

// fail returns an error with a reason about a source that has to be changed. The format is that of fmt.Errorf.
func fail(reason, what, format string, args ...any) error {
	return &sdk.Error{
		Codes:     fetch.Invalid.Codes(),
		Operation: Operation, Reason: reason, Err: fmt.Errorf("fetch %s: %w", what, fmt.Errorf(format, args...)),
	}
}

// about makes an error an *sdk.Error that says which chart, or index, could not be fetched; nil for nil.
func about(what string, err error) error {
	if err == nil || errors.As(err, new(*sdk.Error)) {
		return err
	}
	found := fetch.Explain(err)
	return &sdk.Error{
		Codes: found.Kind.Codes(), Operation: Operation, Reason: reasons[found.Kind],
		Err: fmt.Errorf("fetch %s: %w", what, found.Err),
	}
}
