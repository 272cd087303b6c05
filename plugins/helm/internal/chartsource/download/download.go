// Package download sends requests to servers that nobody vouches for, with credentials that are for one of them.
//
//   - The header Authorization goes to the server of the first request only: not after a redirect to another scheme, host or port, and also
//     not when redirects come back. The address that a redirect came from is never told to the next server, because it may have a token in it.
//   - A redirect from https to http is not followed, and neither are more than a few.
//   - Certificates of authorities that are given for a server count for that server only.
//   - A server that sends nothing for a while is given up.
//   - Compression is not asked for, so that a limit on the bytes is one on what is downloaded.
package download

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/utils/lru"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/keyring"
)

const (
	// mostRedirects is that of browsers and of net/http, halved: archives are behind one or two.
	mostRedirects = 5
	// mostTransports bounds how many sets of authorities are kept with their idle connections.
	mostTransports = 32
	// DefaultStallAfter is how long a server may send nothing.
	DefaultStallAfter = time.Minute
)

var (
	// ErrDowngrade says that a redirect would have led from https to http.
	ErrDowngrade = errors.New("redirected from https to http, which is not followed")
	// ErrTooManyRedirects says that there was one redirect after the other.
	ErrTooManyRedirects = fmt.Errorf("redirected more than %d times", mostRedirects)
	// ErrStalled says that the server has sent nothing for too long.
	ErrStalled = errors.New("the server has stopped sending")
	// ErrProtocol says that the server does not answer as HTTP asks for.
	ErrProtocol = errors.New("the server does not answer as one of HTTP does")
	// ErrCAData says that what was given as certificates of authorities has none.
	ErrCAData = errors.New("expected certificates in PEM as CA data, but found none that can be read")
)

// Config sets a Client up.
type Config struct {
	// UserAgent is told to servers.
	UserAgent string
	// StallAfter is how long a server may send nothing. Defaults to DefaultStallAfter.
	StallAfter time.Duration
	// Transport is what connections are made with; nil for the default of net/http. It is not changed.
	Transport *http.Transport
}

// Client makes clients for single operations that share connections.
type Client struct {
	config Config
	usual  *http.Transport
	// special has a transport for each set of authorities.
	special *lru.Cache
}

// New returns a Client, to be closed.
func New(config Config) (*Client, error) {
	if config.StallAfter <= 0 {
		config.StallAfter = DefaultStallAfter
	}
	base := config.Transport
	if base == nil {
		var ok bool
		if base, ok = http.DefaultTransport.(*http.Transport); !ok {
			return nil, fmt.Errorf("make client of chart sources: the default transport is a %T", http.DefaultTransport)
		}
	}
	usual := base.Clone()
	usual.DisableCompression = true
	return &Client{
		config: config,
		usual:  usual,
		special: lru.NewWithEvictionFunc(mostTransports, func(_ lru.Key, value any) {
			if t, ok := value.(*http.Transport); ok {
				t.CloseIdleConnections()
			}
		}),
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.usual.CloseIdleConnections()
	c.special.Clear()
}

// Trust says how the server of an origin is known.
type Trust struct {
	// Origin as package keyring has it.
	Origin string
	// CAData are the authorities in PEM that its certificate must be from; empty for those of the system.
	CAData []byte
	// Insecure takes any certificate.
	Insecure bool
}

// HTTP returns a client for one operation, in which servers are known by trust, and all others by the authorities of the system. Of several
// for the same origin the last counts.
func (c *Client) HTTP(trust ...Trust) (*http.Client, error) {
	r := &router{client: c, transports: map[string]*http.Transport{}}
	for _, t := range trust {
		transport, err := c.transport(t)
		if err != nil {
			return nil, err
		}
		r.transports[t.Origin] = transport
	}
	return &http.Client{Transport: r, CheckRedirect: checkRedirect}, nil
}

func (c *Client) transport(t Trust) (*http.Transport, error) {
	if len(t.CAData) == 0 && !t.Insecure {
		return c.usual, nil
	}
	key := fmt.Sprintf("%t %x", t.Insecure, sha256.Sum256(t.CAData))
	if known, ok := c.special.Get(key); ok {
		if transport, ok := known.(*http.Transport); ok {
			return transport, nil
		}
	}
	transport := c.usual.Clone()
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.ForceAttemptHTTP2 = true // net/http leaves it off with a TLS configuration of one's own
	if len(t.CAData) > 0 {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(t.CAData) {
			return nil, ErrCAData
		}
	}
	transport.TLSClientConfig.InsecureSkipVerify = t.Insecure // the operator has said so for this server
	c.special.Add(key, transport)
	return transport, nil
}

// IsCAData tells whether something has certificates of authorities in PEM.
func IsCAData(data []byte) bool { return x509.NewCertPool().AppendCertsFromPEM(data) }

// checkRedirect is called with the headers of the first request, which net/http begins from at each redirect.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > mostRedirects {
		return ErrTooManyRedirects
	}
	if last := via[len(via)-1]; last.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return ErrDowngrade
	}
	req.Header.Del("Referer")
	first := keyring.Origin(via[0].URL)
	for _, hop := range append(via[1:len(via):len(via)], req) {
		if keyring.Origin(hop.URL) != first {
			req.Header.Del("Authorization")
		}
	}
	return nil
}

// router sends each request with the transport for its server.
type router struct {
	client     *Client
	transports map[string]*http.Transport
}

// RoundTrip gives up when the server sends nothing for long, also in the middle of the body.
func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	transport, ok := r.transports[keyring.Origin(req.URL)]
	if !ok {
		transport = r.client.usual
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	req = req.Clone(ctx)
	req.Header.Set("User-Agent", r.client.config.UserAgent)
	w := &watched{ctx: ctx, cancel: cancel, after: r.client.config.StallAfter}
	w.timer = time.AfterFunc(w.after, func() { cancel(ErrStalled) })
	resp, err := transport.RoundTrip(req)
	if err != nil {
		err = w.explain(err)
		w.end()
		return nil, err
	}
	w.body = resp.Body
	resp.Body = w
	return resp, nil
}

// watched is the body of an answer.
type watched struct {
	ctx    context.Context //nolint:containedctx // it is that of the request, whose body this is
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
	body   io.ReadCloser
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if err == nil {
		w.timer.Reset(w.after)
		return n, nil
	}
	if err != io.EOF {
		err = &BrokenError{Err: w.explain(err)}
	}
	return n, err
}

// explain tells why the request was given up, if it was. An error that is not about the connection is replaced: it quotes what the server
// has sent, and what that is must not get into the status of a deploy item, because the server may be one that its author cannot reach.
func (w *watched) explain(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	var (
		network     net.Error
		certificate *tls.CertificateVerificationError
		alert       tls.AlertError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &network), errors.As(err, &certificate), errors.As(err, &alert), errors.As(err, &record),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, http.ErrSchemeMismatch):
		return err
	default:
		return ErrProtocol
	}
}

func (w *watched) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// Close ends the request.
func (w *watched) Close() error {
	defer w.end()
	return w.body.Close()
}

// Display returns an address for people: without what may be a secret, which is the user and the query.
func Display(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		return shown.String() + "?…"
	}
	return shown.String()
}
