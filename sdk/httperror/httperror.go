// Package httperror turns failures of an HTTP API, the target of deploy items, into errors of the sdk, so that jobs are
// ended, repeated and paused as they should be:
//
//	401           the credentials are wrong           ERR_UNAUTHORIZED, the job fails
//	400, 422      the request is wrong                ERR_CONFIGURATION_PROBLEM, the job fails
//	429           the API asks for a pause            the call is repeated after Retry-After; TargetSilent
//	408, 5xx      the API fails                       the call is repeated, after Retry-After if it is set; TargetSilent
//	no answer     not reachable, broken off, too late the call is repeated; TargetSilent
//	others        such as 403, 404 and 409            the call is repeated: the cause may end elsewhere
//
// The texts have neither the address, because it may have a secret in it, nor the answer of the API. The caller adds
// what it knows to be harmless, by wrapping the error:
//
//	res, err := client.Do(req)
//	if err != nil {
//		return httperror.Explain("the DNS API", err)
//	}
//	defer res.Body.Close()
//	if err := httperror.Check("the DNS API", res); err != nil {
//		return fmt.Errorf("create record %s: %w", name, err)
//	}
package httperror

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reasons of errors.
const (
	// ReasonUnauthorized: the target does not know the credentials.
	ReasonUnauthorized = "TargetUnauthorized"
	// ReasonRejected: the target has found the request wrong.
	ReasonRejected = "RequestRejected"
	// ReasonBusy: the target asks for a pause.
	ReasonBusy = "TargetBusy"
	// ReasonUnreachable: there was no answer from the target.
	ReasonUnreachable = "TargetUnreachable"
	// ReasonTarget: any other error of the target.
	ReasonTarget = "TargetError"
)

// Check returns an *sdk.Error for an answer with a status of 400 and above; nil for others. server names the API at the
// beginning of the text. The body stays unread and open.
func Check(server string, res *http.Response) error {
	code := res.StatusCode
	if code < http.StatusBadRequest {
		return nil
	}
	out, does := &sdk.Error{Reason: ReasonTarget}, "refuses the request"
	after := RetryAfter(res)
	switch {
	case code == http.StatusUnauthorized:
		out.Codes, out.Reason = []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized}, ReasonUnauthorized
		does = "does not accept the credentials of the Target"
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		out.Codes, out.Reason = []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, ReasonRejected
		does = "finds the request wrong"
	case code == http.StatusTooManyRequests, after > 0 && code >= http.StatusInternalServerError:
		out.Reason, out.TargetSilent, out.RetryAfter, does = ReasonBusy, true, after, "asks to wait"
		if after > 0 {
			does += " " + after.String()
		}
	case code == http.StatusRequestTimeout, code >= http.StatusInternalServerError:
		out.TargetSilent, does = true, "fails"
	}
	out.Err = fmt.Errorf("%s %s: HTTP %d (%s)", server, does, code, http.StatusText(code))
	return out
}

// Explain returns an *sdk.Error for the error of a request without an answer, or of the reader of an answer; nil for
// nil. server names the API in the text. An *sdk.Error in err, such as of a round tripper, stays as it is. The end of
// the call is no error of the API.
func Explain(server string, err error) error {
	var known *sdk.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("request to %s: %w", server, context.Canceled)
	default:
		return &sdk.Error{
			Reason: ReasonUnreachable, TargetSilent: true, Err: fmt.Errorf("cannot reach %s: %w", server, Cause(err)),
		}
	}
}

// Cause returns the cause of a failed request of net/http without the address, because it may have a secret in it. A
// cause beyond the connection is replaced: it may quote the answer, or the address of a redirect.
func Cause(err error) error {
	for request := (*url.Error)(nil); errors.As(err, &request); { // a round tripper may make requests of its own
		err = request.Err
	}
	if network := net.Error(nil); errors.As(err, &network) {
		return network // without the texts around it
	}
	if certificate := (*tls.CertificateVerificationError)(nil); errors.As(err, &certificate) {
		return certificate
	}
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF, http.ErrSchemeMismatch} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("invalid HTTP response")
}

// RetryAfter returns the pause in the header Retry-After of an answer, a number of seconds or a time; zero for none. It
// also is the time for the next look at an operation that the API has accepted.
func RetryAfter(res *http.Response) time.Duration {
	header := res.Header.Get("Retry-After")
	if until, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(until).Round(time.Second))
	}
	seconds, err := strconv.ParseInt(header, 10, 32)
	if err != nil {
		return 0
	}
	return max(0, time.Duration(seconds)*time.Second)
}
