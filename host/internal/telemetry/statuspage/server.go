package statuspage

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

//go:embed assets
var assets embed.FS

const (
	maxHeader = 16 << 10
	// statusAge is how old what is shown may be: however many look, and however often, it costs the host no more than that.
	statusAge = time.Second
	// refreshSeconds is how often a browser loads the page again, until somebody stops it.
	refreshSeconds = 5
)

// site is what the status page is made of.
type site struct {
	sources Sources
	names   telemetry.HostNames
	page    *template.Template
	log     *slog.Logger

	mu     sync.Mutex
	latest *Status
}

// Listen opens the address, such as "127.0.0.1:9080", and returns a server of the status page for the manager. names are those under which
// it may be asked.
func Listen(ctx context.Context, address string, names telemetry.HostNames, sources Sources, log *slog.Logger) (*manager.Server, error) {
	page, err := template.New("overview.html").Funcs(template.FuncMap{
		"age":   age,
		"short": func(sum string) string { return sum[:min(len(sum), 12)] },
		"mebi":  func(b uint64) uint64 { return (b + 1<<19) >> 20 },
		"join":  strings.Join,
		"add":   func(a, b int) int { return a + b },
	}).ParseFS(assets, "assets/overview.html")
	if err != nil {
		return nil, fmt.Errorf("parse the template of the status page: %w", err)
	}
	s := &site{sources: sources, names: names, page: page, log: log}
	return telemetry.Serve(ctx, "the status page", address, &http.Server{
		Handler: s.handler(), ReadTimeout: telemetry.RequestTimeout, WriteTimeout: telemetry.RequestTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	})
}

func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /status.json", s.json)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, assets, "assets/style.css")
	})
	return secureHeaders(s.names.Guard("add it to statusPage.hostNames of the HostConfiguration if it is right", mux))
}

// secureHeaders has browsers run and load nothing that is not the page's own.
func secureHeaders(next http.Handler) http.Handler {
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

// status returns what is shown, which nobody may change. Who asks while it is made waits for it.
func (s *site) status() *Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil || s.sources.Clock.Since(s.latest.Time) >= statusAge {
		s.latest = s.sources.status()
	}
	return s.latest
}

func (s *site) overview(w http.ResponseWriter, r *http.Request) {
	data := struct {
		Status  *Status
		Refresh int // after how many seconds the browser loads the page again; 0 for never
	}{s.status(), refreshSeconds}
	if r.URL.Query().Has("still") {
		data.Refresh = 0
	}
	var body bytes.Buffer // as a whole, so that an error does not end in half a page
	err := s.page.Execute(&body, data)
	s.answer(w, "text/html; charset=utf-8", body.Bytes(), err)
}

func (s *site) json(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(s.status(), "", "  ")
	s.answer(w, "application/json", append(body, '\n'), err)
}

func (s *site) answer(w http.ResponseWriter, contentType string, body []byte, err error) {
	if err != nil {
		s.log.Error("the status page could not be made", "error", err.Error())
		http.Error(w, "the page could not be made; see the log of the host", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // who asked may be gone
}

// age is how long ago something was, with two digits or two units. What is in the future by another clock is now.
func age(now, at time.Time) string {
	d := max(0, now.Sub(at))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
