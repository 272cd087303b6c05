package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// requestTimeout bounds a request, whoever sends it.
	requestTimeout = 10 * time.Second
	// shutdownTimeout is how long requests under way may take when the host stops.
	shutdownTimeout = 2 * time.Second
)

// Server answers requests over HTTP, at an address of its own. See Listen and ListenForProfiles for which.
type Server struct {
	what     string
	listener net.Listener
	server   *http.Server
}

// Listen opens the address, such as ":8080", and returns a Server that Start lets answer /healthz, /readyz and /metrics. ready returns why the host
// cannot work, nil if it can.
//
//   - /healthz answers 200 as long as the process answers at all.
//   - /readyz answers 200 once the host can work, else 503 with a line for each reason.
//   - /metrics has the metrics in Prometheus' format.
func Listen(ctx context.Context, address string, ready func() error, metrics prometheus.Gatherer) (*Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return listen(ctx, "health and metrics", address, &http.Server{Handler: mux, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout})
}

func listen(ctx context.Context, what, address string, server *http.Server) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", what, err)
	}
	return &Server{what: what, listener: listener, server: server}, nil
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // who asked may be gone
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Start answers requests until ctx ends. It blocks.
func (s *Server) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", s.what, err)
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.server.Shutdown(shutdownCtx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving %s: %w", s.what, err)
	}
	return nil
}

// NeedLeaderElection lets every replica answer.
func (s *Server) NeedLeaderElection() bool { return false }
