package targetclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// slowServer is a server that keeps requests waiting whose path contains one of the words.
type slowServer struct {
	*httptest.Server

	mu      sync.Mutex
	waits   []string
	changed chan struct{}
	// seen counts the requests for objects, and probes those for the version.
	seen, probes int
}

func newSlowServer(t *testing.T, http2 bool, waits ...string) *slowServer {
	t.Helper()
	s := &slowServer{waits: waits, changed: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.waitFor()
		s.Close()
	})
	return s
}

// waitFor replaces the words; requests that wait for none of them any more are answered.
func (s *slowServer) waitFor(waits ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = waits
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *slowServer) counts() (seen, probes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen, s.probes
}

func (s *slowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if r.URL.Path == "/version" {
		s.probes++
	} else {
		s.seen++
	}
	s.mu.Unlock()
	if r.URL.Query().Get("watch") == "true" || strings.Contains(r.URL.Path, "half") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, " ")
		_ = http.NewResponseController(w).Flush()
	}
	for {
		s.mu.Lock()
		waiting := false
		for _, word := range s.waits {
			waiting = waiting || strings.Contains(r.URL.Path, word)
		}
		changed := s.changed
		s.mu.Unlock()
		if !waiting {
			answerObject(w)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
