package statuspage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/hostnames"
)

const (
	// requestTimeout bounds a request, whoever sends it.
	requestTimeout = 10 * time.Second
	// shutdownTimeout is how long requests under way may take when the host stops.
	shutdownTimeout = 2 * time.Second
	maxHeader       = 16 << 10
)

// Server serves the status page.
type Server struct {
	sources  Sources
	status   *cached[*Status]
	names    hostnames.Names
	pages    *pages
	log      *slog.Logger
	listener net.Listener
}

// Listen opens the address, such as "127.0.0.1:9080", and returns a Server that Start lets answer. names are those under which it may be
// asked.
func Listen(ctx context.Context, address string, names hostnames.Names, sources Sources, log *slog.Logger) (*Server, error) {
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the status page: %w", err)
	}
	return &Server{sources: sources, status: newStatus(sources), names: names, pages: pages, log: log, listener: listener}, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// NeedLeaderElection lets every replica answer.
func (s *Server) NeedLeaderElection() bool { return false }

// Start answers requests until ctx ends. It blocks.
func (s *Server) Start(ctx context.Context) error {
	server := &http.Server{
		Handler: s.handler(), ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the status page: %w", err)
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdownCtx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving the status page: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /items/{namespace}/{name}", s.history)
	mux.HandleFunc("GET /status.json", s.json)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, "text/css; charset=utf-8", s.pages.style) })
	return fence(s.names.Guard("add it to statusPage.hostNames of the HostConfiguration if it is right", mux))
}

// fence has browsers run and load nothing that is not the page's own.
func fence(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	s.page(w, func() ([]byte, error) {
		return render(s.pages.overview, overview{Status: s.status.get(), Refresh: refreshOf(r)})
	})
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	s.page(w, func() ([]byte, error) {
		return render(s.pages.history, history{
			Time: s.sources.Clock.Now().UTC(), Namespace: namespace, Name: name,
			Jobs: control.JobsOf(s.sources.Jobs(namespace, name)).Jobs, Refresh: refreshOf(r),
		})
	})
}

// refreshOf is after how many seconds the browser looks again; 0 for never.
func refreshOf(r *http.Request) int {
	if r.URL.Query().Has("still") {
		return 0
	}
	return refreshSeconds
}

func (s *Server) page(w http.ResponseWriter, content func() ([]byte, error)) {
	body, err := content()
	if err != nil {
		s.log.Error("the status page could not be made", "error", err.Error())
		http.Error(w, "the page could not be made; see the log of the host", http.StatusInternalServerError)
		return
	}
	s.answer(w, "text/html; charset=utf-8", body)
}

func (s *Server) json(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(s.status.get(), "", "  ")
	if err != nil {
		s.log.Error("the status could not be written as JSON", "error", err.Error())
		http.Error(w, "the status could not be written; see the log of the host", http.StatusInternalServerError)
		return
	}
	s.answer(w, "application/json", append(body, '\n'))
}

func (s *Server) answer(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if _, err := w.Write(body); err != nil {
		s.log.Debug("an answer of the status page was not taken", "error", err.Error())
	}
}
