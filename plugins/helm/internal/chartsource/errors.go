package chartsource

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/download"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/flight"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/index"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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

var codes = map[string]v1alpha1.ErrorCode{
	ReasonSourceInvalid:      v1alpha1.ErrorConfigurationProblem,
	ReasonResolverMissing:    v1alpha1.ErrorConfigurationProblem,
	ReasonArchiveInvalid:     v1alpha1.ErrorConfigurationProblem,
	ReasonTooLarge:           v1alpha1.ErrorConfigurationProblem,
	ReasonDigestMismatch:     v1alpha1.ErrorConfigurationProblem,
	ReasonUnauthorized:       v1alpha1.ErrorUnauthorized,
	ReasonCredentialsMissing: v1alpha1.ErrorConfigurationProblem,
	ReasonPanic:              v1alpha1.ErrorInternalProblem,
}

// fail returns an error with a reason and the code that belongs to it. The format is that of fmt.Errorf.
func fail(reason, format string, args ...any) error {
	e := &sdk.Error{Operation: Operation, Reason: reason, Err: fmt.Errorf(format, args...)}
	if code, ok := codes[reason]; ok {
		e.Codes = []v1alpha1.ErrorCode{code}
	}
	return e
}

// explain returns an error about a source as an *sdk.Error, with all that a user can do about it.
func explain(what fmt.Stringer, err error) error {
	var (
		known       *sdk.Error
		panicked    *flight.PanicError
		disk        *cache.Error
		large       *cache.TooLargeError
		status      *download.StatusError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &panicked):
		return fail(ReasonPanic, "fetch %s: %w", what, err)
	case errors.As(err, &disk):
		return fail(ReasonCache, "fetch %s: %w", what, err)
	case errors.As(err, &large):
		return fail(ReasonTooLarge, "fetch %s: it is %w; use a smaller one, or have the operator of the helm deployer allow more", what, err)
	case errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone):
		return fail(ReasonNotFound, "fetch %s: there is nothing at this address: %w; check the address, or publish the chart", what, err)
	case errors.As(err, &certificate):
		return fail(ReasonUnavailable, "fetch %s: the certificate of the server is not trusted: %w; if it is from a private authority, "+
			"add that to the credentials for its address (customCAData), or, for a registry, have the operator add it", what, certificate.Err)
	case errors.Is(err, index.ErrNoIndex), errors.Is(err, index.ErrLayout), errors.Is(err, index.ErrTooMuch):
		return fail(ReasonArchiveInvalid, "fetch %s: its index.yaml cannot be read: %w; check that helmChartRepoUrl is the address of a chart repository", what, err)
	default:
		return fail(ReasonUnavailable, "fetch %s: %w", what, download.Bare(err))
	}
}

// access is what there was to get access to a server with, for an error that says what was wrong with it.
type access struct {
	// field of the Context that has such credentials.
	field string
	// server that was asked.
	server string
	// tried says that there were credentials. Problems are those of others.
	tried    bool
	problems []string
}

// refused is the error of a server that has answered with 401 or 403.
func (a access) refused(what fmt.Stringer) error {
	switch {
	case a.tried && len(a.problems) > 0:
		return fail(ReasonCredentialsInvalid, "fetch %s: %s does not accept the credentials of the Context's %s, some of which cannot be used: %s",
			what, a.server, a.field, strings.Join(a.problems, "; "))
	case a.tried:
		return fail(ReasonUnauthorized, "fetch %s: %s does not accept the credentials of the Context's %s, or does not allow them to read the chart; "+
			"check user and password there, and that the address is right", what, a.server, a.field)
	case len(a.problems) > 0:
		return fail(ReasonCredentialsInvalid, "fetch %s: %s needs credentials, but those of the Context's %s cannot be used: %s",
			what, a.server, a.field, strings.Join(a.problems, "; "))
	default:
		return fail(ReasonCredentialsMissing, "fetch %s: %s wants credentials, and the Context has none for it; "+
			"add some to the Context's %s, and check that the address is right", what, a.server, a.field)
	}
}

// isRefusal tells whether a status is about credentials.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// ended returns the cause if a call's context has ended, which says more than what came of it.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
