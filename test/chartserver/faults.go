package chartserver

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Match says which requests a fault hits. The zero value is all of them, for ever.
type Match struct {
	// Kind of the requests; empty for any.
	Kind Kind
	// Method of the requests; empty for any.
	Method string
	// Path of the requests; empty for any.
	Path string
	// Skip is how many requests are answered well before the first that is hit.
	Skip int
	// Times is how many requests are hit; zero for all.
	Times int
}

// A Fault answers requests in place of a server that is well, or has it answered by next and spoils that.
type Fault func(next http.Handler) http.Handler

// standing is a fault in force.
type standing struct {
	match Match
	fault Fault
	seen  int
}

// Break has a server misbehave with the requests that match, until mend is called. If several faults match, the oldest counts. A fault comes
// before the server asks who the client is.
func (s *Server) Break(match Match, fault Fault) (mend func()) {
	f := &standing{match: match, fault: fault}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(g *standing) bool { return g == f })
	}
}

// misbehave has faults answer what they match.
func (s *Server) misbehave(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := Other
		if recorder, ok := w.(*recorder); ok {
			kind = recorder.request.Kind
		}
		if fault := s.faultFor(kind, r); fault != nil {
			fault(next).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) faultFor(kind Kind, r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		m := f.match
		if (m.Kind != "" && m.Kind != kind) || (m.Method != "" && m.Method != r.Method) || (m.Path != "" && m.Path != r.URL.Path) {
			continue
		}
		f.seen++
		if f.seen > m.Skip && (m.Times == 0 || f.seen <= m.Skip+m.Times) {
			return f.fault
		}
	}
	return nil
}

// Status answers with a status and a body that says so. Headers come in pairs of name and value.
func Status(status int, headers ...string) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for pair := range slices.Chunk(headers, 2) {
				w.Header().Set(pair[0], pair[len(pair)-1])
			}
			http.Error(w, "injected: "+http.StatusText(status), status)
		})
	}
}

// Answer answers with a body.
func Answer(body []byte) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(body) // the client may have gone
		})
	}
}

// Redirect sends clients on to a URL, with the status, such as 307.
func Redirect(status int, url string) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, status) })
	}
}

// RedirectTo sends clients on to the same path and query of another server, with the status 307.
func RedirectTo(server *Server) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", server.URL()+r.URL.RequestURI())
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
}

// Hang answers nothing until the client gives up, or the server is closed.
func Hang() Fault { return Hold(nil) }

// Hold answers once release is closed, and then as it should.
func Hold(release <-chan struct{}) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
				next.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
}

// Cut cuts the connection after so many bytes of the body, which the headers announce in full.
func Cut(after int) Fault {
	return altered(func(w http.ResponseWriter, r *http.Request, body []byte) {
		_, _ = w.Write(body[:min(after, len(body))]) // the client may have gone
		control := http.NewResponseController(w)     // so may it have now,
		_ = control.Flush()                          // and now
		if conn, _, err := control.Hijack(); err == nil {
			_ = conn.Close()
		}
	})
}

// Stall hangs after so many bytes of the body, until the client gives up, or the server is closed.
func Stall(after int) Fault {
	return altered(func(w http.ResponseWriter, r *http.Request, body []byte) {
		_, _ = w.Write(body[:min(after, len(body))])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// Slow lets time pass between pieces of the body.
func Slow(piece int, pause time.Duration) Fault {
	return altered(func(w http.ResponseWriter, r *http.Request, body []byte) {
		for part := range slices.Chunk(body, piece) {
			if _, err := w.Write(part); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
		}
	})
}

// Corrupt answers with other bytes of the same number: the last one is changed.
func Corrupt() Fault {
	return altered(func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if len(body) > 0 {
			body[len(body)-1] ^= 0xff
		}
		_, _ = w.Write(body)
	})
}

// Endless answers well and then goes on with zeros until the client goes, and does not say how many there will be.
func Endless() Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := replay(next, r)
			answer.header.Del("Content-Length")
			answer.writeHeader(w)
			zeros := make([]byte, 1<<16)
			for _, err := w.Write(answer.body.Bytes()); err == nil && r.Context().Err() == nil; {
				_, err = w.Write(zeros)
			}
		})
	}
}

// altered has a body that was meant for a client written by write, after the headers that belong to it.
func altered(write func(w http.ResponseWriter, r *http.Request, body []byte)) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := replay(next, r)
			answer.header.Set("Content-Length", strconv.Itoa(answer.body.Len()))
			answer.writeHeader(w)
			write(w, r, answer.body.Bytes())
		})
	}
}

// answer is what a handler has answered.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// replay returns what a handler answers to a request.
func replay(handler http.Handler, r *http.Request) *answer {
	a := &answer{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(a, r)
	return a
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) writeHeader(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
}
