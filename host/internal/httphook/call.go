package httphook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxBody bounds requests and answers, after decompression.
	maxBody = 64 << 20
	// maxFailure bounds what is read of an answer that says that the hook has failed.
	maxFailure = 64 << 10
	// maxRedirects bounds the redirects of one request.
	maxRedirects = 3
)

// newClient returns a client for one hook. It follows redirects only within the hook, and uses no proxy.
func newClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        config,
			ForceAttemptHTTP2:      true, // which a TLS configuration would switch off
			MaxIdleConns:           8,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			// A connection to a pod that is gone must not take all requests until the system gives it up.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 10 * time.Second},
		},
		CheckRedirect: checkRedirect,
	}
}

// contractError is what breaks the contract, as it travels through the HTTP client.
type contractError struct{ error }

// checkRedirect refuses redirects that would make another request of a POST, or lead anywhere else.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first, code := via[0].URL, next.Response.StatusCode
	switch {
	case code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect:
		return contractError{fmt.Errorf("expected no redirect but 307 and 308, which keep the request, but found %d", code)}
	case next.URL.User != nil || origin(next.URL) != origin(first):
		return contractError{fmt.Errorf("expected redirects within %s, but found one to %s: give the registration the address itself", origin(first), clean(origin(next.URL)))}
	case len(via) > maxRedirects:
		return contractError{fmt.Errorf("expected at most %d redirects, but found more", maxRedirects)}
	}
	return nil
}

// origin is what a redirect must not leave.
func origin(u *url.URL) string {
	port := map[string]string{schemeHTTP: "80", schemeHTTPS: "443"}[u.Scheme]
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + cmp.Or(u.Port(), port)
}

// exchange posts a request, has the body of a 2xx answer read by read, and counts what came of it. The error is an *Error, or wraps
// the cause of the end of ctx. An error of read is a contract violation.
func (h *Hook) exchange(ctx context.Context, phase v1alpha1.HookCapability, body []byte, read func([]byte) error) error {
	if len(body) > maxBody {
		return h.fail(phase, Error{Reason: ReasonRequestTooLarge, Permanent: true, Message: fmt.Sprintf(
			"expected a deploy item and desired objects of at most %d MiB of JSON, but found %d: make several deploy items of it", maxBody>>20, len(body)>>20)})
	}
	start := time.Now()
	code, err := h.post(ctx, phase, body, read)
	h.metrics.observe(h.registration, phase, codeLabel(code, err), time.Since(start))
	return err
}

// post returns the HTTP status of the answer; zero without one.
func (h *Hook) post(ctx context.Context, phase v1alpha1.HookCapability, body []byte, read func([]byte) error) (int, error) {
	bounded, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, h.url.String(), bytes.NewReader(body))
	if err != nil {
		return 0, h.noAnswer(ctx, bounded, phase, 0, err)
	}
	request.Header.Set("Content-Type", "application/json; charset=UTF-8")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", h.userAgent)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	if h.authorization != "" {
		request.Header.Set("Authorization", h.authorization)
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return 0, h.noAnswer(ctx, bounded, phase, 0, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read as far as it counts
	succeeded := answer.StatusCode/100 == 2
	most := maxFailure
	if succeeded {
		most = maxBody
	}
	document, err := io.ReadAll(io.LimitReader(answer.Body, int64(most)+1))
	if err != nil {
		return answer.StatusCode, h.noAnswer(ctx, bounded, phase, answer.StatusCode, err)
	}
	if !succeeded {
		return answer.StatusCode, h.failed(phase, answer, document[:min(len(document), most)])
	}
	if len(document) > most {
		err = fmt.Errorf("expected a body of at most %d MiB, but found more", most>>20)
	} else {
		err = read(document)
	}
	if err != nil {
		return answer.StatusCode, h.violation(phase, answer.StatusCode, err)
	}
	return answer.StatusCode, nil
}

// noAnswer is the error for a request without an answer, or with one that broke off. bounded is ctx with the timeout of the hook.
func (h *Hook) noAnswer(ctx, bounded context.Context, phase v1alpha1.HookCapability, code int, err error) error {
	var cause *url.Error
	var broken contractError
	if errors.As(err, &cause) {
		err = cause.Err // without the URL and its query
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask hook of DeployerRegistration %q (%s): %w", h.registration, phase, context.Cause(ctx))
	case errors.As(err, &broken):
		return h.violation(phase, code, err)
	case bounded.Err() != nil:
		return h.fail(phase, Error{Code: code, Reason: ReasonTimeout, Err: err,
			Message: fmt.Sprintf("no whole answer within %s; look after the server, or give the registration a longer timeout", h.timeout)})
	}
	return h.fail(phase, Error{Code: code, Reason: ReasonUnreachable, Err: err, Message: "no whole answer: " + clean(err.Error())})
}

// failed is the error for an answer that is not 2xx.
func (h *Hook) failed(phase v1alpha1.HookCapability, answer *http.Response, body []byte) error {
	code := answer.StatusCode
	if code/100 == 3 {
		return h.violation(phase, code, fmt.Errorf("expected an answer or a redirect, but found the status %d without a place to go to", code))
	}
	message, permanent, continues := readFailure(body)
	reason := ReasonFailed
	if permanent {
		reason = ReasonPermanentError
	}
	return h.fail(phase, Error{Code: code, Reason: reason, Permanent: permanent, Continue: continues,
		Message: fmt.Sprintf("the answer was %d: %s", code, cmp.Or(message, "it has no message"))})
}

func (h *Hook) violation(phase v1alpha1.HookCapability, code int, err error) error {
	return h.fail(phase, Error{Code: code, Reason: ReasonContractViolation, Permanent: true, Message: clean(err.Error()), Err: err})
}

// fail completes an Error.
func (h *Hook) fail(phase v1alpha1.HookCapability, e Error) error {
	e.Registration, e.Phase, e.URL = h.registration, phase, h.URL()
	return &e
}

// codeLabel is the value of the label code for what came of a request.
func codeLabel(code int, err error) string {
	var failed *Error
	switch {
	case err != nil && !errors.As(err, &failed):
		return codeCanceled
	case err == nil || failed.Reason == ReasonFailed || failed.Reason == ReasonPermanentError:
		return strconv.Itoa(code)
	case failed.Reason == ReasonTimeout:
		return codeTimeout
	}
	return codeError
}
