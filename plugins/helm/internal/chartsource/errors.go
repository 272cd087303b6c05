package chartsource

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

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

// fault is an error of this package that does not say yet which chart it is about.
type fault struct {
	reason string
	err    error
}

// faultf returns a fault. The format is that of fmt.Errorf.
func faultf(reason, format string, args ...any) error {
	return &fault{reason: reason, err: fmt.Errorf(format, args...)}
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// about makes an error an *sdk.Error that says which chart, or index, could not be fetched.
func about(what string, err error) error {
	var known *sdk.Error
	var found *fault
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &found):
		return fail(found.reason, "fetch %s: %w", what, found.err)
	default:
		return fail(ReasonUnavailable, "fetch %s: %w", what, connectionError(err))
	}
}

// connectionError returns an error of net/http without the address, which may have a secret in it. An error that is
// not about the connection is replaced: it quotes what the server has sent, and that must not get into the status of a
// deploy item, because its author may not be able to reach the server.
func connectionError(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var (
		found       *fault
		network     net.Error
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &found):
		return found
	case errors.As(err, &certificate):
		return fmt.Errorf("the certificate of the server is not trusted: %w; if it is from a private authority, add that "+
			"to the credentials for its address (customCAData), or, for a registry, have the operator add it", certificate.Err)
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, http.ErrSchemeMismatch):
		return err
	default:
		return errors.New("the server does not answer as one of HTTP does")
	}
}

// body reads from what may break, with errors of this package.
type body struct {
	from    io.Reader
	explain func(error) error
}

// bodyOf is the body of an answer.
func bodyOf(from io.Reader) body {
	return body{from: from, explain: func(err error) error {
		return faultf(ReasonUnavailable, "the answer has broken off: %w", connectionError(err))
	}}
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it as it is
		err = b.explain(err)
	}
	return n, err
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
func (a access) refused() error {
	problems := strings.Join(a.problems, "; ")
	switch {
	case problems != "":
		return faultf(ReasonCredentialsInvalid, "%s needs other credentials than the Context's %s has, "+
			"some of which cannot be used: %s", a.server, a.field, problems)
	case a.tried:
		return faultf(ReasonUnauthorized, "%s does not accept the credentials of the Context's %s, or does not allow them "+
			"to read the chart; check user and password there, and that the address is right", a.server, a.field)
	default:
		return faultf(ReasonCredentialsMissing, "%s wants credentials, and the Context has none for it; "+
			"add some to the Context's %s, and check that the address is right", a.server, a.field)
	}
}

// isRefusal says whether a status is about credentials.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
