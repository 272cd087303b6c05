package target

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/sdk"
)

// timeouts bound the wait for a target, so that it is reported long before the timeout of a job. The number of
// requests is up to the API server.
type timeouts struct {
	// connect is for a connection, and for the first request of a job, because it is answered at once.
	connect time.Duration
	// answer is until the beginning of an answer. It is the time limit of an API server itself.
	answer time.Duration
	// absence is the time without a kind until it counts as gone without another proof.
	absence time.Duration
}

var defaultTimeouts = timeouts{connect: 10 * time.Second, answer: time.Minute, absence: 30 * time.Second}

// newTransport returns the transport of a client. A transport of client-go would stay in its cache for ever. This one
// notices dead connections, and closes unused ones after a while.
func newTransport(config *rest.Config, server *url.URL, s settings) (http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	var next http.RoundTripper = utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     tlsConfig,
		Proxy:               config.Proxy,
		DialContext:         (&net.Dialer{Timeout: s.timeouts.connect}).DialContext,
		TLSHandshakeTimeout: s.timeouts.connect,
		MaxIdleConnsPerHost: 25,
	})
	if s.wrap != nil {
		next = s.wrap(next)
	}
	return &serverOnly{server: server, next: &bounded{next: next, answer: s.timeouts.answer}}, nil
}

// serverOnly sends requests to its server alone.
type serverOnly struct {
	server *url.URL
	next   http.RoundTripper
}

var _ http.RoundTripper = (*serverOnly)(nil)

// RoundTrip implements http.RoundTripper.
func (t *serverOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := CheckServer(req, t.server); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // the contract of RoundTripper
		}
		return nil, err
	}
	if err := permitted(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	return t.next.RoundTrip(req)
}

type permissionKey struct{}

// WithPermission returns a context whose requests ask for permission before a change of a target. Without permission
// such a request fails with an *sdk.Error with ReasonNotPermitted.
func WithPermission(ctx context.Context, ask func(context.Context) error) context.Context {
	return context.WithValue(ctx, permissionKey{}, ask)
}

func permitted(req *http.Request) error {
	ask, ok := req.Context().Value(permissionKey{}).(func(context.Context) error)
	if !ok || req.Method == http.MethodGet {
		return nil
	}
	if err := ask(req.Context()); err != nil {
		return &sdk.Error{Reason: ReasonNotPermitted, Err: err}
	}
	return nil
}

// CheckServer returns an error for a request to another server. Requests have the credentials of the Target; the
// clients of client-go add them also after a redirect, wherever it leads.
func CheckServer(req *http.Request, server *url.URL) error {
	if req.URL.Scheme == server.Scheme && req.URL.Host == server.Host {
		return nil
	}
	return fmt.Errorf("it redirects to %s://%s, where the credentials of the Target are not sent; "+
		"correct the address in the Target", req.URL.Scheme, req.URL.Host)
}
