package statuspage

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

//go:embed assets
var assets embed.FS

// refreshSeconds is the interval between two loads of the page in a browser, unless stopped by its reader.
const refreshSeconds = 5

// site serves the status page.
type site struct {
	sources Sources
	page    *template.Template
	log     *slog.Logger
}

// Listen opens the address, such as "127.0.0.1:9080", and returns a server of the status page for the manager. names
// are its valid host names.
func Listen(
	ctx context.Context, address string, names telemetry.HostNames, sources Sources, log *slog.Logger,
) (*manager.Server, error) {
	s := &site{sources: sources, log: log, page: template.Must(template.New("overview.html").Funcs(template.FuncMap{
		"age":   func(now, at time.Time) string { return duration.HumanDuration(max(0, now.Sub(at))) },
		"short": func(sum string) string { return sum[:min(len(sum), 12)] },
		"mebi":  func(b uint64) uint64 { return (b + 1<<19) >> 20 },
		"join":  strings.Join,
		"add":   func(a, b int) int { return a + b },
	}).ParseFS(assets, "assets/overview.html"))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /status.json", s.json)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, assets, "assets/style.css")
	})
	const advice = "add it to statusPage.hostNames of the HostConfiguration if it is right"
	return telemetry.Serve(ctx, "the status page", address, &http.Server{
		Handler:     secureHeaders(names.Guard(advice, mux)),
		ReadTimeout: telemetry.RequestTimeout, WriteTimeout: telemetry.RequestTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	})
}

// secureHeaders makes browsers run no script, and load only resources of the page.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *site) overview(w http.ResponseWriter, r *http.Request) {
	data := struct {
		Status *Status
		// Refresh is the number of seconds before the browser loads the page again; 0 for never.
		Refresh int
	}{s.sources.status(), refreshSeconds}
	if r.URL.Query().Has("still") {
		data.Refresh = 0
	}
	// The page is complete before it is sent, so that an error does not end in half of it.
	var body bytes.Buffer
	err := s.page.Execute(&body, data)
	s.answer(w, "text/html; charset=utf-8", body.Bytes(), err)
}

func (s *site) json(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(s.sources.status(), "", "  ")
	s.answer(w, "application/json", append(body, '\n'), err)
}

func (s *site) answer(w http.ResponseWriter, contentType string, body []byte, err error) {
	if err != nil {
		s.log.Error("cannot make the status page", "error", err.Error())
		http.Error(w, "the page could not be made; see the log of the host", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	// The client may be gone.
	_, _ = w.Write(body)
}
