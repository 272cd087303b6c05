// Package apiserver is the way of requests to the API server of a target, the same for deployers and for the process
// with the Helm library. The requests of clients with a Config
//
//   - go to the server of the kubeconfig alone, and with WithPermission change nothing before the pick-up;
//   - end in time, with answers of a bounded size, see WithBreaker;
//   - have errors and warnings without quotes of objects, see WithHidden.
//
// The number of requests is up to the API server, by its priority and fairness.
package apiserver

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
)

// ErrKubeconfig is the error for an unusable kubeconfig. It leaves the reasons out, because they quote the
// kubeconfig.
var ErrKubeconfig = errors.New("the kubeconfig cannot be used; its certificates and keys must be PEM and fit " +
	"together, its proxy-url an address, and its user have one way to log in")

// Timeouts bound the wait for an API server, so that its silence is reported long before the timeout of a job.
type Timeouts struct {
	// Connect is for a connection.
	Connect time.Duration
	// Answer is until the beginning of an answer. It is the time limit of an API server itself.
	Answer time.Duration
}

// DefaultTimeouts are those of a plugin in operation.
var DefaultTimeouts = Timeouts{Connect: 10 * time.Second, Answer: time.Minute}

// Options of a Config.
type Options struct {
	// UserAgent is the name of the clients for API servers.
	UserAgent string
	// Wrap puts round trippers around the connections, below authentication.
	Wrap     []func(http.RoundTripper) http.RoundTripper
	Timeouts Timeouts
}

// Config returns a config for clients of the API server of a kubeconfig, with the transport of this package. It sends
// no request. The host has checked the kubeconfig; the error is ErrKubeconfig.
func Config(kubeconfig []byte, o Options) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, ErrKubeconfig
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, ErrKubeconfig
	}
	next, err := connections(config, o)
	if err != nil {
		return nil, ErrKubeconfig
	}
	next = &gate{server: server, next: &bounded{next: next, answer: o.Timeouts.Answer}}
	next, err = rest.HTTPWrappersForConfig(config, &plainSpeech{next: tracing.Transport(next)})
	if err != nil {
		return nil, ErrKubeconfig
	}
	return &rest.Config{
		Host: server.String(), Transport: next, UserAgent: o.UserAgent,
		QPS:                       -1,                // the API server limits
		WarningHandlerWithContext: rest.NoWarnings{}, // see WithWarnings
	}, nil
}

// connections returns the transport at the bottom. A transport of client-go would stay in its cache for ever. This one
// notices dead connections, and closes unused ones after a while.
func connections(config *rest.Config, o Options) (http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	var transport http.RoundTripper = utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     tlsConfig,
		Proxy:               config.Proxy,
		DialContext:         (&net.Dialer{Timeout: o.Timeouts.Connect}).DialContext,
		TLSHandshakeTimeout: o.Timeouts.Connect,
		MaxIdleConnsPerHost: 25,
	})
	for _, wrap := range o.Wrap {
		transport = wrap(transport)
	}
	return transport, nil
}

// gate lets requests pass to its server alone, and changes after permission alone. It lets no web pages back.
type gate struct {
	server *url.URL
	next   http.RoundTripper
}

var _ http.RoundTripper = (*gate)(nil)

// RoundTrip implements http.RoundTripper.
func (t *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	err := checkServer(req, t.server)
	if err == nil {
		err = permitted(req)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	res, err := t.next.RoundTrip(req)
	if err == nil && isWebPage(res) {
		_ = res.Body.Close() // its content is unused
		return nil, fmt.Errorf("it answers with a web page (HTTP %d), as no API server does; "+
			"correct the address in the Target", res.StatusCode)
	}
	return res, err
}

// isWebPage reports whether an answer is the page of a portal or a proxy, which would pass for an object or for the
// absence of one. Other errors mean the same from a proxy.
func isWebPage(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // an unreadable one is none
	return kind == "text/html" && (res.StatusCode < http.StatusMultipleChoices || res.StatusCode == http.StatusNotFound)
}

// closeBody fulfills the contract of RoundTripper for an unsent request.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nothing was read
	}
}

// checkServer returns an error for a request to another server. Requests have the credentials of the Target; the
// clients of client-go add them also after a redirect, wherever it leads.
func checkServer(req *http.Request, server *url.URL) error {
	if req.URL.Scheme == server.Scheme && req.URL.Host == server.Host {
		return nil
	}
	return fmt.Errorf("it redirects to %s://%s, where the credentials of the Target are not sent; "+
		"correct the address in the Target", req.URL.Scheme, req.URL.Host)
}
