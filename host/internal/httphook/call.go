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
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

const (
	// maxBody bounds requests and answers, after decompression.
	maxBody = 64 << 20
	// maxFailure bounds the body of a failed answer.
	maxFailure = 64 << 10
	// maxRedirects bounds the redirects of one request.
	maxRedirects = 3
	// maxMessage bounds the message of an Error, in bytes.
	maxMessage = 1 << 10
	// idleTimeout is how long a connection is kept for the next request.
	idleTimeout = 90 * time.Second
	// userAgent is the name of the host in requests.
	userAgent = "pergola-host"
)

// newClient returns a client for one hook. It follows redirects only within the hook, and uses no proxy.
func newClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: config,
			// A TLS configuration would switch it off.
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           8,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			// A dead connection to a deleted pod must not take all requests until the system gives it up.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 10 * time.Second},
		},
		CheckRedirect: checkRedirect,
	}
}

// checkRedirect follows redirects to the same server with the same request. Another one is the answer.
func checkRedirect(next *http.Request, via []*http.Request) error {
	code := next.Response.StatusCode
	keeps := code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect
	if keeps && len(via) <= maxRedirects && next.URL.User == nil && origin(next.URL) == origin(via[0].URL) {
		return nil
	}
	return http.ErrUseLastResponse
}

// origin identifies the server of a URL. A redirect must not leave it.
func origin(u *url.URL) string {
	port := map[string]string{schemeHTTP: "80", schemeHTTPS: "443"}[u.Scheme]
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + cmp.Or(u.Port(), port)
}

// post sends a request and has the body of a 2xx answer read. It returns the HTTP status of the answer, zero without
// one.
func (h *Hook) post(ctx context.Context, body []byte, read func([]byte) error) (int, *Error) {
	bounded, cancel := context.WithTimeout(ctx, h.options.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, h.options.URL.String(), bytes.NewReader(body))
	if err != nil {
		return 0, h.noAnswer(bounded, 0, err)
	}
	request.Header.Set("Content-Type", "application/json; charset=UTF-8")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", strings.TrimSuffix(userAgent+"/"+h.options.Version, "/"))
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	if h.options.Authorization != "" {
		request.Header.Set("Authorization", h.options.Authorization)
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return 0, h.noAnswer(bounded, 0, err)
	}
	// The answer was read as far as it counts.
	defer func() { _ = answer.Body.Close() }()
	code, limit := answer.StatusCode, maxFailure
	if code/100 == 2 {
		limit = maxBody
	}
	document, err := io.ReadAll(io.LimitReader(answer.Body, int64(limit)+1))
	switch {
	case err != nil:
		return code, h.noAnswer(bounded, code, err)
	case code/100 == 3:
		err = fmt.Errorf("expected an answer, or at most %d redirects by 307 or 308 within %s, "+
			"but found the status %d: give the registration the address itself", maxRedirects, origin(h.options.URL), code)
	case code/100 != 2:
		return code, failure(code, document[:min(len(document), limit)])
	case len(document) > limit:
		err = fmt.Errorf("expected a body of at most %d MiB, but found more", limit>>20)
	default:
		err = read(document)
	}
	if err != nil {
		return code, violation(code, err)
	}
	return code, nil
}

// noAnswer is the error for a request without a complete answer. bounded has the timeout of the hook.
func (h *Hook) noAnswer(bounded context.Context, code int, err error) *Error {
	var cause *url.Error
	if errors.As(err, &cause) {
		// The cause has no URL and no query.
		err = cause.Err
	}
	if bounded.Err() != nil {
		return &Error{Code: code, Reason: ReasonTimeout, Message: fmt.Sprintf(
			"no whole answer within %s; look after the server, or give the registration a longer timeout",
			h.options.Timeout)}
	}
	return &Error{Code: code, Reason: ReasonUnreachable, Message: "no whole answer: " + clean(err.Error(), maxMessage)}
}

// violation is the error for an answer against the contract.
func violation(code int, err error) *Error {
	return &Error{Code: code, Reason: ReasonContractViolation, Permanent: true, Message: clean(err.Error(), maxMessage)}
}

// failure is the error for an answer other than 2xx and 3xx. A body not of the form of the Hooks API is a message as a
// whole.
func failure(code int, body []byte) *Error {
	var said struct {
		Message   string `json:"message"`
		Permanent bool   `json:"permanent"`
		Continue  bool   `json:"continue"`
	}
	e := &Error{Code: code, Reason: ReasonFailed}
	if err := decodeObject(body, &said); err != nil || said.Message == "" {
		said.Message = string(body)
		if err != nil {
			said.Permanent, said.Continue = false, false
		}
	}
	e.Continue = said.Continue
	if said.Permanent && !said.Continue {
		e.Permanent, e.Reason = true, ReasonPermanentError
	}
	e.Message = fmt.Sprintf("the answer was %d: %s", code, cmp.Or(clean(said.Message, maxMessage), "it has no message"))
	return e
}

// clean makes a foreign text fit for a message.
func clean(foreign string, limit int) string {
	return text.Cut(text.Printable(strings.TrimSpace(foreign)), limit)
}
