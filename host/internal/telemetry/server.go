package telemetry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// RequestTimeout bounds the time to read a request, and to answer one without a duration of its own.
const RequestTimeout = 10 * time.Second

// shutdownTimeout bounds running requests when the host stops.
const shutdownTimeout = 2 * time.Second

// Serve opens an address, such as ":8080", and sets the Addr of the server to it. Added to a manager, the result
// answers from the start, before the caches are filled, and until all else has stopped. purpose names it in errors and
// logs.
func Serve(ctx context.Context, purpose, address string, server *http.Server) (*manager.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", purpose, err)
	}
	server.Addr = listener.Addr().String()
	return &manager.Server{Name: purpose, Server: server, Listener: listener, ShutdownTimeout: new(shutdownTimeout)}, nil
}

// Listen opens the address, such as ":8080", and returns a server of /healthz, /readyz and /metrics for the manager.
// ready returns an error if the host cannot work. It is called before the manager has started anything else.
//
//   - /healthz answers 200 as long as the process answers at all.
//   - /readyz answers 200 once the host can work, else 503 with a line for each reason. /readyz?verbose adds a line for
//     each plugin.
//   - /metrics has the metrics in Prometheus' format.
func Listen(
	ctx context.Context, address string, ready func() error, plugins func() []plugin.Status, metrics prometheus.Gatherer,
) (*manager.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusOK, "ok"
		if err := ready(); err != nil {
			status, text = http.StatusServiceUnavailable, err.Error()
		}
		if r.URL.Query().Has("verbose") {
			for _, p := range plugins() {
				text += "\n" + verbose(p)
			}
		}
		answer(w, status, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadTimeout: RequestTimeout, WriteTimeout: RequestTimeout}
	return Serve(ctx, "health and metrics", address, server)
}

// verbose is a line about a plugin, as the API server has one for each of its checks.
func verbose(p plugin.Status) string {
	mark := "[-]"
	if p.Ready() {
		mark = "[+]"
	}
	text := fmt.Sprintf("%splugin %s %s, %d restarts", mark, p.File, p.State, p.Restarted())
	if p.Info != nil {
		text += fmt.Sprintf(": %s %s", p.Info.Name, p.Info.Version)
	}
	return text
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client may be gone.
	_, _ = fmt.Fprintln(w, text)
}

// ListenForProfiles opens an address and returns a server of /debug/pprof/, as package net/http/pprof has it, for the
// manager. A profile shows the memory of the host, so only localhost is a valid host name.
func ListenForProfiles(ctx context.Context, address string) (*manager.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// There is no write timeout: the client chooses the duration of a profile.
	handler := HostNames{}.Guard("profiles are for localhost alone", mux)
	return Serve(ctx, "profiles", address, &http.Server{Handler: handler, ReadTimeout: RequestTimeout})
}
