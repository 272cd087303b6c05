// Package chartserver has what charts are downloaded from, on loopback, for tests and the demo: an OCI registry, a
// chart repository and a server of plain files. They ask for credentials as the real ones do, remember the headers of
// their requests, so that a test can see who was sent what, and fail on demand.
package chartserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
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
	// Bearer: a token with each request, which the token service gives for user and password. For registries only.
	Bearer Auth = "bearer"
)

// Options say how a server is set up.
type Options struct {
	// PlainHTTP: no TLS. Otherwise the certificate is that of httptest, which nobody trusts without Server.CA.
	PlainHTTP bool
	// Auth says how the server knows its clients. Defaults to Anybody.
	Auth Auth
	// User and Password are those of the one client, for Basic and Bearer. Without a user the token service gives a
	// token to anybody, as registries do for what is public.
	User, Password string
	// Passwords are those of User for repositories whose names begin with a text, such as "charts/", in place of
	// Password. For registries with Basic only; no text begins with another.
	Passwords map[string]string
	// IdentityToken is accepted by the token service in place of user and password. Empty for none.
	IdentityToken string
	// Tokens is another server with the way Bearer, whose tokens are asked for, as Docker Hub has it. Defaults to the
	// server itself.
	Tokens *Server
	// Path is below what a repository is, such as "/charts/stable". Defaults to the root.
	Path string
}

// Server serves HTTP on loopback until it is closed. Its methods may be called at any time, from any goroutine.
type Server struct {
	opts    Options
	http    *httptest.Server
	handler http.Handler // answers the clients that are known
	token   string       // what the token service gives
	tokens  *Server      // where that is

	mu       sync.Mutex
	requests []Request
	broken   Kind
	fault    Fault
}

// silent logs nothing: clients that do not trust a server are what tests are about.
var silent = log.New(io.Discard, "", 0)

func start(opts Options, handler http.Handler) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	s := &Server{opts: opts, handler: handler, token: rand.Text()}
	s.tokens = cmp.Or(opts.Tokens, s)
	config := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: silent}
	s.http = &httptest.Server{Listener: listener, Config: config}
	if opts.PlainHTTP {
		s.http.Start()
	} else {
		s.http.StartTLS()
	}
	return s, nil
}

// closeAfter has a test close a server. It ends the test if the server has not started.
func closeAfter(t testing.TB, server io.Closer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() }) // nobody needs it any more
}

// Host is the address with the port, such as "127.0.0.1:40123".
func (s *Server) Host() string { return s.http.Listener.Addr().String() }

// URL is where the server is, with its path, such as "https://127.0.0.1:40123/stable".
func (s *Server) URL() string { return s.http.URL + s.opts.Path }

// CA is the certificate of the authority for the server's certificate as PEM; nil for PlainHTTP.
func (s *Server) CA() []byte {
	if s.opts.PlainHTTP {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Close cuts all connections, those of requests that hang included.
func (s *Server) Close() error { return s.http.Config.Close() }

// ServeHTTP remembers the request. Then the server asks who the client is, and only after that the fault comes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone()}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	broken, fault := s.broken, s.fault
	s.mu.Unlock()
	switch {
	case s.opts.Auth == Bearer && r.URL.Path == tokenPath:
		s.giveToken(w, r)
	case !s.knows(r):
		s.refuse(w)
	case fault != nil && broken.of(request):
		fault(w, r, s.handler)
	default:
		s.handler.ServeHTTP(w, r)
	}
}

const (
	// tokenPath is where the token service is, and service what the registry is called there.
	tokenPath = "/token"
	service   = "charts"
)

// DockerConfig is a docker configuration with the credentials for one host, as in a Secret of the type
// kubernetes.io/dockerconfigjson.
func DockerConfig(host, user, password string) []byte {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q,"auth":%q}}}`, host, user, password, auth)
}

// BasicAuth is the value of a header Authorization with user and password.
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// knows says whether a request comes from a client that may have what it asks for.
func (s *Server) knows(r *http.Request) bool {
	switch s.opts.Auth {
	case Basic:
		return s.hasPassword(r)
	case Bearer:
		return r.Header.Get("Authorization") == "Bearer "+s.tokens.token
	default:
		return true
	}
}

func (s *Server) hasPassword(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	want := s.opts.Password
	for begin, other := range s.opts.Passwords {
		if strings.HasPrefix(r.URL.Path, "/v2/"+begin) {
			want = other
		}
	}
	return ok && user == s.opts.User && password == want
}

func (s *Server) refuse(w http.ResponseWriter) {
	challenge := `Basic realm="charts"`
	if s.opts.Auth == Bearer {
		challenge = fmt.Sprintf("Bearer realm=%q,service=%q", s.tokens.URL()+tokenPath, service)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, "authentication required", http.StatusUnauthorized)
}

// giveToken is the token service, as Docker's registry describes it: GET comes with basic credentials, and POST with an
// identity token.
func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	public := s.opts.User == ""
	identified := s.opts.IdentityToken != "" && r.PostFormValue("refresh_token") == s.opts.IdentityToken
	if r.FormValue("service") != service || !public && !identified && !s.hasPassword(r) {
		http.Error(w, "authentication required", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"token": s.token, "access_token": s.token}) // the client may have gone
}

// Kind says what a request is for: it is a part of its path.
type Kind string

// The kinds of requests.
const (
	Any      Kind = ""
	Manifest Kind = "/manifests/"
	Blob     Kind = "/blobs/"
	Index    Kind = "/index.yaml"
	File     Kind = ".tgz"
)

func (k Kind) of(r Request) bool { return strings.Contains(r.Path, string(k)) }

// Request is a request that a server has got.
type Request struct {
	Method, Path string
	Header       http.Header
}

// HasCredentials says whether something in the request is there to prove who the client is.
func (r Request) HasCredentials() bool {
	return r.Header.Get("Authorization")+r.Header.Get("Proxy-Authorization")+r.Header.Get("Cookie") != ""
}

// String is for the message of a test. It holds no header.
func (r Request) String() string { return r.Method + " " + r.Path }

// Requests returns the requests of a kind in the order in which they came, whether they are answered already or not.
func (s *Server) Requests(kind Kind) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool { return !kind.of(r) })
}

// Count is how many requests of a kind have come.
func (s *Server) Count(kind Kind) int { return len(s.Requests(kind)) }

// WithCredentials returns the requests that have credentials.
func (s *Server) WithCredentials() []Request {
	return slices.DeleteFunc(s.Requests(Any), func(r Request) bool { return !r.HasCredentials() })
}

// Forget forgets all requests.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}
