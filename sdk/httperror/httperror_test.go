package httperror_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/httperror"
)

const theSecret = "t0ps3cret"

// Rule (plugin-authors.md#kit): Package httperror ends a job for wrong credentials and wrong requests only. All other
// failures are repeated, after Retry-After.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		header string
		code   v1alpha1.ErrorCode
		reason string
		silent bool
		after  time.Duration
		text   string
	}{
		{200, "", "", "", false, 0, ""},
		{202, "5", "", "", false, 0, ""},
		{304, "", "", "", false, 0, ""},
		{401, "", v1alpha1.ErrorUnauthorized, "TargetUnauthorized", false, 0, "does not accept the credentials"},
		{400, "", v1alpha1.ErrorConfigurationProblem, "RequestRejected", false, 0, "finds the request wrong: HTTP 400"},
		{422, "7", v1alpha1.ErrorConfigurationProblem, "RequestRejected", false, 0, "HTTP 422"},
		{403, "", "", "TargetError", false, 0, "the API refuses the request: HTTP 403 (Forbidden)"},
		{404, "", "", "TargetError", false, 0, ""},
		{409, "7", "", "TargetError", false, 0, ""},
		{429, "", "", "TargetBusy", true, 0, "the API asks to wait: HTTP 429 (Too Many Requests)"},
		{429, "7", "", "TargetBusy", true, 7 * time.Second, "asks to wait 7s"},
		{503, "7", "", "TargetBusy", true, 7 * time.Second, "asks to wait 7s"},
		{503, "", "", "TargetError", true, 0, "fails"},
		{500, "soon", "", "TargetError", true, 0, ""},
		{408, "", "", "TargetError", true, 0, ""},
	} {
		err := httperror.Check("the API", &http.Response{
			StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}},
		})
		if c.reason == "" {
			if err != nil {
				t.Errorf("%d: expected no error, but found %v", c.status, err)
			}
			continue
		}
		var found *sdk.Error
		var codes []v1alpha1.ErrorCode
		if c.code != "" {
			codes = append(codes, c.code)
		}
		if !errors.As(err, &found) || found.Reason != c.reason || !slices.Equal(found.Codes, codes) ||
			found.TargetSilent != c.silent || found.RetryAfter != c.after || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%d %q: expected %+v, but found %+v", c.status, c.header, c, found)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "90": 90 * time.Second, "1.5": 0, "99999999999999": 0,
		"Wed, 21 Oct 2015 07:28:00 GMT": 0,
	} {
		if got := httperror.RetryAfter(&http.Response{Header: http.Header{"Retry-After": {header}}}); got != want {
			t.Errorf("%q: expected %s, but found %s", header, want, got)
		}
	}
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	got := httperror.RetryAfter(&http.Response{Header: http.Header{"Retry-After": {at}}})
	if got < 50*time.Minute || got > time.Hour {
		t.Errorf("%s: found %s", at, got)
	}
}

// The address is in no text, and a request without an answer is repeated.
func TestExplain(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			<-r.Context().Done()
		case "/redirect":
			w.Header().Set("Location", "http://%zz/"+theSecret)
			w.WriteHeader(http.StatusFound)
		case "/broken":
			connection, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = connection.Write([]byte(theSecret + "\n\n"))
				_ = connection.Close()
			}
		}
	}))
	t.Cleanup(server.Close)
	gone, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	client := &http.Client{Timeout: 200 * time.Millisecond}
	for address, want := range map[string]string{
		server.URL + "/late":             "cannot reach the API: context deadline exceeded",
		server.URL + "/redirect":         "invalid HTTP response",
		server.URL + "/broken":           "invalid HTTP response",
		"http://" + gone.Addr().String(): "connection refused",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"?token="+theSecret, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		var found *sdk.Error
		err = httperror.Explain("the API", err)
		if !errors.As(err, &found) || found.Reason != httperror.ReasonUnreachable || !found.TargetSilent ||
			len(found.Codes) > 0 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), theSecret) {
			t.Errorf("%s: expected %q, but found %v", address, want, err)
		}
	}
	own := &sdk.Error{Reason: "Own"}
	if err := httperror.Explain("the API", fmt.Errorf("a round tripper: %w", own)); !errors.Is(err, own) {
		t.Errorf("expected the error of the caller, but found %v", err)
	}
	err = httperror.Explain("the API", context.Canceled)
	if !errors.Is(err, context.Canceled) || errors.As(err, new(*sdk.Error)) {
		t.Errorf("expected the end of the call, but found %v", err)
	}
	if err := httperror.Explain("the API", nil); err != nil {
		t.Errorf("no error must stay none, but found %v", err)
	}
}

// The address of a request that a round tripper makes, such as for a token, is in no text either.
func TestCauseOfNestedRequest(t *testing.T) {
	t.Parallel()
	request := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://token.example.org/?key=" + theSecret, Err: err}
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for err, want := range map[error]string{
		request(request(refused)):                                                   "dial tcp: connection refused",
		request(fmt.Errorf("get a token: %w", request(refused))):                    "dial tcp: connection refused",
		request(fmt.Errorf("ask %s: %w", theSecret, refused)):                       "dial tcp: connection refused",
		request(errors.Join(errors.New(theSecret), request(refused))):               "dial tcp: connection refused",
		request(request(fmt.Errorf("read %s: %w", theSecret, io.ErrUnexpectedEOF))): "unexpected EOF",
		request(request(&tls.CertificateVerificationError{Err: errors.New("expired")})): "tls: failed to verify " +
			"certificate: expired",
		request(request(errors.New(theSecret))): "invalid HTTP response",
	} {
		if found := httperror.Cause(err).Error(); found != want {
			t.Errorf("%v: expected %q, but found %q", err, want, found)
		}
	}
}
