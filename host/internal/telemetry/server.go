package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// Listen opens the address, such as ":8080", and returns a server of /healthz, /readyz and /metrics for the manager. ready returns why the host cannot
// work, nil if it can. It is asked before the manager has started anything else.
//
//   - /healthz answers 200 as long as the process answers at all.
//   - /readyz answers 200 once the host can work, else 503 with a line for each reason. /readyz?verbose adds a line for each plugin.
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
	return Serve(ctx, "health and metrics", address, &http.Server{Handler: mux, ReadTimeout: RequestTimeout, WriteTimeout: RequestTimeout})
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
	_, _ = fmt.Fprintln(w, text) // who asked may be gone
}
