package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
)

// maxRedirects is half of the bound of browsers and of net/http: archives are behind one or two.
const maxRedirects = 5

// newTransport returns the transport for servers with a certificate of the system's authorities.
func newTransport(base *http.Transport, stallAfter time.Duration) (*http.Transport, error) {
	if base == nil {
		var ok bool
		if base, ok = http.DefaultTransport.(*http.Transport); !ok {
			return nil, fmt.Errorf("make client: the default transport is a %T", http.DefaultTransport)
		}
	}
	t := base.Clone()
	t.DisableCompression = true // a limit counts downloaded bytes
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stallConn{Conn: c, after: stallAfter}, nil
	}
	return t, nil
}

// stallConn gives up when the server sends nothing for long, also in the middle of an answer.
type stallConn struct {
	net.Conn

	after time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.after)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = Errorf(Unavailable, "the server stopped sending")
	}
	return n, err
}

// Write gives the server time for its answer: a Read may wait for it already.
func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.after)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

var errCAData = errors.New("invalid CA data: expected certificates in PEM")

// withAuthorities returns a transport with trust in the given authorities only, in PEM. With none it accepts any
// certificate.
func withAuthorities(usual *http.Transport, caData []byte) (*http.Transport, error) {
	t := usual.Clone()
	t.ForceAttemptHTTP2 = true // by default net/http leaves it off with a custom TLS configuration
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	// This is the operator's setting for this server.
	t.TLSClientConfig.InsecureSkipVerify = len(caData) == 0
	if len(caData) > 0 && !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(caData) {
		return nil, errCAData
	}
	return t, nil
}

// router sends each request with the transport for its server: the authorities for a server count for it alone.
type router struct {
	usual *http.Transport
	// special are the transports by server, in the form of ServerOf.
	special map[string]*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (r router) RoundTrip(req *http.Request) (*http.Response, error) {
	if t, ok := r.special[ServerOf(req.URL)]; ok {
		return t.RoundTrip(req)
	}
	return r.usual.RoundTrip(req)
}

// client returns a client with the operator's settings for servers.
func (r router) client() *http.Client {
	return &http.Client{Transport: r, CheckRedirect: checkRedirect}
}

// trusting returns a router with the authorities of a Context in addition; it leaves out unreadable ones. Of several
// for the same server own counts, and otherwise the last.
func (r router) trusting(own sdk.ChartRepositoryCredentials, all []sdk.ChartRepositoryCredentials) router {
	special := maps.Clone(r.special)
	for _, c := range append(slices.Clone(all), own) {
		u, err := url.Parse(c.URL)
		if err != nil || len(c.CAData) == 0 {
			continue
		}
		if t, err := withAuthorities(r.usual, c.CAData); err == nil {
			t.DisableKeepAlives = true // the transport is for one fetch
			special[ServerOf(u)] = t
		}
	}
	return router{usual: r.usual, special: special}
}

// close closes idle connections.
func (r router) close() {
	r.usual.CloseIdleConnections()
	for _, t := range r.special {
		t.CloseIdleConnections()
	}
}

// checkRedirect refuses a redirect from https to http, and too many of them. net/http calls it at each redirect with
// the headers of the first request. The header Authorization goes to the server of the first request only: not after
// a redirect to another scheme, host or port, even if a later redirect leads back.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return Errorf(Unavailable, "redirected more than %d times", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return Errorf(Unavailable, "refused a redirect from https to http")
	}
	// The next server must not get the address before the redirect: it may have a token in it.
	req.Header.Del("Referer")
	first := ServerOf(via[0].URL)
	for _, hop := range append(via[1:len(via):len(via)], req) {
		if ServerOf(hop.URL) != first {
			req.Header.Del("Authorization")
		}
	}
	return nil
}

// Display returns an address for users, without a possible secret: the user and the query.
func Display(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		return shown.String() + "?…"
	}
	return shown.String()
}
