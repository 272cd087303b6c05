package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// noise does not compress.
func noise(size int) string {
	raw := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(raw)
	return string(raw)
}

const secretToken = "t0ken-of-the-run"

// someUpload allows four chunks.
func someUpload(namespace string) layout.Upload {
	return layout.Upload{
		Namespace: namespace, Result: "run-result", State: []string{
			"run-state-0", "run-state-1", "run-state-2", "run-state-3",
		},
		ResultLabels: map[string]string{"kind": "result"}, StateLabels: map[string]string{"kind": "state"},
		StateAnnotations: map[string]string{"uuid": "u"}, MaxExportBytes: 1000,
	}
}

// apiServer plays the API server, as it is when all is not well.
type apiServer struct {
	*testing.T

	url string
	// trouble answers a request instead, and tells whether it has; nil for none. It is called with the lock held.
	trouble func(count int, w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests int
	applied  []*secret
}

// newAPIServer listens on a loopback address, and returns a place whose access leads there.
func newAPIServer(
	t *testing.T, address string, trouble func(int, http.ResponseWriter, *http.Request) bool,
) (*apiServer, *place) {
	t.Helper()
	s := &apiServer{T: t, trouble: trouble}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Skipf("there is no such address here: %v", err)
	}
	server := httptest.NewUnstartedServer(s)
	must(t, server.Listener.Close())
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = server.URL
	p := newPlace(t)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	authorities := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p.grant(address, port, string(authorities), secretToken, someUpload("some-ns"))
	must(t, os.MkdirAll(p.base+"/"+layout.State, 0o755))
	return s, p
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := s.requests
	s.requests++
	if s.trouble != nil && s.trouble(count, w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.Error(err)
	}
	document := &secret{}
	if err := json.Unmarshal(body, document); err != nil {
		s.Error(err)
	}
	const path, query = "/api/v1/namespaces/some-ns/secrets/", "fieldManager=pergola-container-wait&force=true"
	if r.Method != http.MethodPatch || r.URL.Path != path+document.Metadata.Name || r.URL.RawQuery != query ||
		r.Header.Get("Content-Type") != "application/apply-patch+yaml" {
		s.Errorf("found the request %s %s with %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+secretToken {
		s.Errorf("found the header %q", got)
	}
	s.applied = append(s.applied, document)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// names of the Secrets in the order in which they were written.
func (s *apiServer) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, document := range s.applied {
		names = append(names, document.Metadata.Name)
	}
	return names
}

func (s *apiServer) mustHave(names ...string) {
	s.Helper()
	if got := s.names(); !slices.Equal(got, names) {
		s.Errorf("expected the Secrets %v, but found %v", names, got)
	}
}

// report returns the report, which is in the last Secret, with what is exported; nil for nothing.
func (s *apiServer) report() (report layout.Report, exports []byte) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.applied) == 0 {
		s.Fatal("nothing was uploaded")
	}
	data := s.applied[len(s.applied)-1].Data
	if err := json.Unmarshal(data[layout.ReportKey], &report); err != nil {
		s.Fatal(err)
	}
	return report, data[layout.ChunkKey]
}

// answer answers with a Status.
func answer(w http.ResponseWriter, code int, message string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "code": code, "message": message})
	return true
}

// cut closes the connection.
func cut(w http.ResponseWriter) bool {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
	return true
}

// withoutSecrets fails the test if something was said that is for nobody.
func withoutSecrets(t *testing.T, said string) {
	t.Helper()
	for _, private := range []string{secretToken, "s3cr3t", "czNjcjN0"} {
		if strings.Contains(said, private) {
			t.Errorf("%q was said:\n%s", private, said)
		}
	}
}
