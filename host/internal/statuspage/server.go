package statuspage

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

const maxHeader = 16 << 10

// site is what the status page is made of.
type site struct {
	status *cached[*Status]
	names  telemetry.HostNames
	pages  *pages
	log    *slog.Logger
}

// Listen opens the address, such as "127.0.0.1:9080", and returns a server of the status page for the manager. names are those under which
// it may be asked.
func Listen(ctx context.Context, address string, names telemetry.HostNames, sources Sources, log *slog.Logger) (*manager.Server, error) {
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	s := &site{status: newStatus(sources), names: names, pages: pages, log: log}
	return telemetry.Serve(ctx, "the status page", address, &http.Server{
		Handler: s.handler(), ReadTimeout: telemetry.RequestTimeout, WriteTimeout: telemetry.RequestTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	})
}

func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.overview)
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

func (s *site) overview(w http.ResponseWriter, r *http.Request) {
	body, err := render(s.pages.overview, overview{Status: s.status.get(), Refresh: refreshOf(r)})
	if err != nil {
		s.log.Error("the status page could not be made", "error", err.Error())
		http.Error(w, "the page could not be made; see the log of the host", http.StatusInternalServerError)
		return
	}
	s.answer(w, "text/html; charset=utf-8", body)
}

// refreshOf is after how many seconds the browser looks again; 0 for never.
func refreshOf(r *http.Request) int {
	if r.URL.Query().Has("still") {
		return 0
	}
	return refreshSeconds
}

func (s *site) json(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(s.status.get(), "", "  ")
	if err != nil {
		s.log.Error("the status could not be written as JSON", "error", err.Error())
		http.Error(w, "the status could not be written; see the log of the host", http.StatusInternalServerError)
		return
	}
	s.answer(w, "application/json", append(body, '\n'))
}

func (s *site) answer(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if _, err := w.Write(body); err != nil {
		s.log.Debug("an answer of the status page was not taken", "error", err.Error())
	}
}
