package chartsource

import (
	"errors"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

// Operation of all errors.
const Operation = "FetchChart"

// Reasons of errors. The package comment has the codes and the retries of each.
const (
	// ReasonSourceInvalid: the source is invalid.
	ReasonSourceInvalid = "ChartSourceInvalid"
	// ReasonResolverMissing: no resolver for the component model.
	ReasonResolverMissing = "ChartResolverMissing"
	// ReasonResolveFailed: the resolver has failed.
	ReasonResolveFailed = "ChartResolveFailed"
	// ReasonComponentInvalid: the component version leads to no chart.
	ReasonComponentInvalid = "ChartComponentInvalid"
	// ReasonArchiveInvalid: the content is no chart.
	ReasonArchiveInvalid = "ChartArchiveInvalid"
	// ReasonTooLarge: it is larger than allowed.
	ReasonTooLarge = "ChartTooLarge"
	// ReasonDigestMismatch: its digest is another than expected.
	ReasonDigestMismatch = "ChartDigestMismatch"
	// ReasonUnauthorized: the server refuses the credentials.
	ReasonUnauthorized = "ChartUnauthorized"
	// ReasonCredentialsMissing: the server wants credentials and there are none.
	ReasonCredentialsMissing = "ChartCredentialsMissing"
	// ReasonCredentialsInvalid: the credentials cannot be used.
	ReasonCredentialsInvalid = "ChartCredentialsInvalid"
	// ReasonNotFound: there is no such chart, or version.
	ReasonNotFound = "ChartNotFound"
	// ReasonUnavailable: no answer, or one to try again.
	ReasonUnavailable = "ChartUnavailable"
	// ReasonCache: the disk.
	ReasonCache = "ChartCacheFailed"
	// ReasonPanic: a mistake in the deployer.
	ReasonPanic = "ChartFetchPanic"
)

// reasons are the reasons for the errors of package fetch.
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

// fail returns an error with a reason about a source in need of a change. The format is that of fmt.Errorf.
func fail(reason, what, format string, args ...any) error {
	return &sdk.Error{
		Codes:     fetch.Invalid.Codes(),
		Operation: Operation, Reason: reason, Err: fmt.Errorf("fetch %s: %w", what, fmt.Errorf(format, args...)),
	}
}

// about makes an error an *sdk.Error with the name of the chart or index; nil for nil.
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
