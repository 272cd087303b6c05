package chartserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Auth says how a server knows its clients.
type Auth string

// The ways to know a client.
const (
	// Anybody may do everything.
	Anybody Auth = ""
	// Basic: user and password with each request.
	Basic Auth = "basic"
	// Bearer: a token with each request, which the token service of the registry gives for user and password. For registries only.
	Bearer Auth = "bearer"
	// Header: a header Authorization with exactly the value of Options.Authorization.
	Header Auth = "header"
)

// Options say how a server is set up.
type Options struct {
	// Address is that on loopback which the server listens at, without a port. Defaults to 127.0.0.1. All of 127.0.0.0/8 are loopback on
	// Linux, so that servers can differ in more than their ports.
	Address string
	// PlainHTTP: no TLS.
	PlainHTTP bool
	// Authority has issued the server's certificate. Defaults to one of its own.
	Authority *Authority
	// Auth says how the server knows its clients. Defaults to Anybody.
	Auth Auth
	// User and Password are those of the one client, for Basic and Bearer. Without a user the token service gives a token to anybody, as
	// registries do for what is public.
	User, Password string
	// IdentityToken is accepted by the token service in place of user and password, for Bearer. Empty for none.
	IdentityToken string
	// Authorization is what clients send for Header.
	Authorization string
	// TokensElsewhere has the token service of a registry on a server of its own, as Docker Hub has it, for Bearer.
	TokensElsewhere bool
	// Path is below what a repository is, such as "/charts/stable". Defaults to the root.
	Path string
}

// Server serves HTTP on loopback until it is closed. Its methods may be called at any time, from any goroutine.
type Server struct {
	opts      Options
	authority *Authority
	listener  net.Listener
	server    *http.Server
	served    chan error

	mu       sync.Mutex
	changed  chan struct{} // closed and made anew when requests has grown
	requests []*Request
	faults   []*standing
}

// start serves handler, which is asked for what no fault answers, with kind saying what a request is for.
func start(opts Options, kind func(*http.Request) Kind, handler http.Handler) (*Server, error) {
	if opts.Address == "" {
		opts.Address = "127.0.0.1"
	}
	ip := net.ParseIP(opts.Address)
	if ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("listen at %q: no address on loopback", opts.Address)
	}
	s := &Server{opts: opts, served: make(chan error, 1), changed: make(chan struct{})}
	var certificates []tls.Certificate
	if !opts.PlainHTTP {
		if s.authority = opts.Authority; s.authority == nil {
			var err error
			if s.authority, err = NewAuthority(); err != nil {
				return nil, err
			}
		}
		certificate, err := s.authority.issue(ip)
		if err != nil {
			return nil, err
		}
		certificates = []tls.Certificate{certificate}
	}
	var err error
	if s.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(opts.Address, "0")); err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	s.server = &http.Server{
		Handler:           s.record(kind, s.misbehave(handler)),
		TLSConfig:         &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		// Clients that do not trust the authority are what tests are about.
		ErrorLog: log.New(io.Discard, "", 0),
		// A fault can cut a connection of HTTP/1 only.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go func() {
		if opts.PlainHTTP {
			s.served <- s.server.Serve(s.listener)
			return
		}
		s.served <- s.server.ServeTLS(s.listener, "", "")
	}()
	return s, nil
}

// Host is the address with the port, such as "127.0.0.1:40123".
func (s *Server) Host() string { return s.listener.Addr().String() }

// URL is where the server is, such as "https://127.0.0.1:40123".
func (s *Server) URL() string {
	if s.opts.PlainHTTP {
		return "http://" + s.Host()
	}
	return "https://" + s.Host()
}

// Authority has issued the server's certificate; nil for PlainHTTP.
func (s *Server) Authority() *Authority { return s.authority }

// CA is the certificate of the authority as PEM; nil for PlainHTTP.
func (s *Server) CA() []byte {
	if s.authority == nil {
		return nil
	}
	return s.authority.PEM()
}

// Client returns a client that trusts the server's authority and no other, and has no credentials.
func (s *Server) Client() *http.Client {
	transport := &http.Transport{}
	if s.authority != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: s.authority.Pool(), MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}
}

// Close cuts all connections, those of requests that hang included.
func (s *Server) Close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.served <- http.ErrServerClosed // for who closes it again
	if err != nil {
		return fmt.Errorf("close server of charts: %w", err)
	}
	return nil
}
