package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/endpoint"
)

// Listen opens the address, such as ":8080", and returns a server of /healthz, /readyz and /metrics for the manager. ready returns why the host cannot
// work, nil if it can. It is asked before the manager has started anything else.
//
//   - /healthz answers 200 as long as the process answers at all.
//   - /readyz answers 200 once the host can work, else 503 with a line for each reason.
//   - /metrics has the metrics in Prometheus' format.
func Listen(ctx context.Context, address string, ready func() error, metrics prometheus.Gatherer) (*manager.Server, error) {
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
	return endpoint.Listen(ctx, "health and metrics", address, &http.Server{Handler: mux, ReadTimeout: endpoint.RequestTimeout, WriteTimeout: endpoint.RequestTimeout})
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // who asked may be gone
}
