package chartserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Kind says what a request is for.
type Kind string

// The kinds of requests.
const (
	// Ping asks a registry whether it is one, and how it knows its clients.
	Ping Kind = "ping"
	// Manifest is for a manifest of a registry.
	Manifest Kind = "manifest"
	// Blob is for a blob of a registry.
	Blob Kind = "blob"
	// Tags is for the tags of a repository of a registry.
	Tags Kind = "tags"
	// Token is for the token service of a registry.
	Token Kind = "token"
	// Index is for the index of a chart repository.
	Index Kind = "index"
	// File is for a file: an archive, of a repository or otherwise.
	File Kind = "file"
	// Other is anything else.
	Other Kind = "other"
)

// Request is a request that a server has got.
type Request struct {
	// Method, Host and Path are those of the request; Query is what comes after the path.
	Method, Host, Path, Query string
	// Kind says what it is for.
	Kind Kind
	// Header are all headers.
	Header http.Header
	// Began is when it came.
	Began time.Time
	// Status was answered; zero as long as nothing is.
	Status int
	// Bytes of the body that were answered.
	Bytes int64
	// Done: nothing more is answered.
	Done bool
}

// HasCredentials says whether something in the request is there to prove who the client is.
func (r Request) HasCredentials() bool {
	for _, h := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		if r.Header.Get(h) != "" {
			return true
		}
	}
	return false
}

// String is for the message of a test. It holds no header.
func (r Request) String() string { return fmt.Sprintf("%s %s %d", r.Method, r.Path, r.Status) }

// Requests returns the requests of the kinds in the order in which they came, those that are not answered yet included; without kinds, all.
func (s *Server) Requests(kinds ...Kind) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var requests []Request
	for _, r := range s.requests {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			requests = append(requests, *r)
		}
	}
	return requests
}

// Count is how many requests of the kinds have come; without kinds, all.
func (s *Server) Count(kinds ...Kind) int { return len(s.Requests(kinds...)) }

// WithCredentials returns the requests that had something in them that is there to prove who the client is.
func (s *Server) WithCredentials() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return !r.HasCredentials() })
}

// Forget empties the books.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Await returns when at least n requests of the kind have come, answered or not, since the books were empty. The error is that of ctx.
func (s *Server) Await(ctx context.Context, kind Kind, n int) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		came := s.Count(kind)
		if came >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d requests of the kind %s, of which %d have come: %w", n, kind, came, ctx.Err())
		}
	}
}

// record keeps the books.
func (s *Server) record(kind func(*http.Request) Kind, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := &Request{
			Method: r.Method, Host: r.Host, Path: r.URL.Path, Query: r.URL.RawQuery,
			Kind: kind(r), Header: r.Header.Clone(), Began: time.Now(),
		}
		s.mu.Lock()
		s.requests = append(s.requests, request)
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			request.Done = true
		}()
		next.ServeHTTP(&recorder{ResponseWriter: w, server: s, request: request}, r)
	})
}

// recorder notes what is answered.
type recorder struct {
	http.ResponseWriter
	server  *Server
	request *Request
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	w.server.mu.Lock()
	if w.request.Status == 0 {
		w.request.Status = status
	}
	w.server.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if w.request.Status == 0 {
		w.request.Status = http.StatusOK
	}
	w.request.Bytes += int64(n)
	return n, err
}
