package chartserver

import (
	"net/http"
	"slices"
)

// A Fault answers a request in place of a server that works, which is next.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Break has a server answer the requests of a kind with a fault, until mend is called or another fault takes its
// place.
func (s *Server) Break(kind Kind, fault Fault) (mend func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.fault = kind, fault
	return func() { s.Break(Any, nil) }
}

// Answer answers with a status and a body. Headers come in pairs of name and value. With a Content-Length of more than
// the body the connection is cut after that.
func Answer(status int, body []byte, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have gone
	}
}

// Redirect sends clients on to a URL.
func Redirect(url string) Fault { return Answer(http.StatusTemporaryRedirect, nil, "Location", url) }

// Hold answers once release is closed, and then as it should. With nil it answers nothing until the client gives up.
func Hold(release <-chan struct{}) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-release:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}
}

// Stall answers with the beginning of a body and then hangs until the client gives up. The answer never ends in order.
func Stall(begin []byte) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		Answer(http.StatusOK, begin)(w, r, next)
		_ = http.NewResponseController(w).Flush() // the client may have gone
		<-r.Context().Done()
		panic(http.ErrAbortHandler) //nolint:forbidigo // which is how a handler breaks a connection
	}
}

// Endless answers with the beginning of a body and then with zeros, until the client gives up.
func Endless(begin []byte) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		for piece := begin; r.Context().Err() == nil; piece = make([]byte, 1<<16) {
			_, _ = w.Write(piece) // the client may have gone
		}
	}
}
