package statuspage

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// open opens a page until the test ends.
func open(t *testing.T, sources Sources) http.Handler {
	t.Helper()
	names := telemetry.HostNames{More: []string{"status.example.org"}}
	s, err := Listen(t.Context(), "127.0.0.1:0", names, sources, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Listener.Close() })
	return s.Server.Handler
}

// ask returns the answer to a request under the name of a host.
func ask(t *testing.T, page http.Handler, method, path, name string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	request.Host = name
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, request)
	return answer
}

func TestPages(t *testing.T) {
	t.Parallel()
	sources := newSources("web")
	sources.Jobs.Observe(jobOf("bad"), noon, failed)
	sources.Jobs.Observe(jobOf("hostile"), noon, telemetry.Waits{For: `"><img src=x onerror=alert(1)>`})
	script := &telemetry.Error{Text: `<script>alert("error")</script>`}
	sources.Jobs.Observe(jobOf("worse"), noon, telemetry.Ended{Error: script})
	served := open(t, sources)
	for _, tc := range []struct {
		reason, path string
		want         []string
	}{
		{"the overview has everything", "/", []string{
			"pergola-test", "pergola-0", "v1.2.3", "26h", "shop/web", "Deployment shop/web to be available",
			"shop/bad", "NotReady", "ERR_TIMEOUT", "has not become available", "Running", "0123456789ab", "50 MiB",
			"3 of 20", "Landscaper",
		}},
		{"nothing that is shown is taken for HTML", "/", []string{"&lt;script&gt;", "&lt;img"}},
		{"one can have a page stand still", "/?still", []string{"As of"}},
	} {
		page := ask(t, served, http.MethodGet, tc.path, "localhost")
		body := page.Body.String()
		if page.Code != http.StatusOK || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
			t.Fatalf("%s: found %d", tc.reason, page.Code)
		}
		for _, text := range tc.want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: expected %q in\n%s", tc.reason, text, body)
			}
		}
		if strings.Contains(body, `http-equiv="refresh"`) == strings.Contains(tc.path, "still") {
			t.Errorf("%s: whether the browser reloads is wrong", tc.reason)
		}
		policy := page.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") ||
			strings.Contains(policy, "unsafe") || page.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: unexpected headers %v", tc.reason, page.Header())
		}
	}
}

// Rule (operators-guide.md#status-page): The status page changes nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	served := open(t, newSources())
	for _, path := range []string{"/", "/status.json", "/style.css"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if page := ask(t, served, method, path, "localhost"); page.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: expected that it is not allowed, but found %d", method, path, page.Code)
			}
		}
		if page := ask(t, served, http.MethodGet, path, "Status.example.org"); page.Code != http.StatusOK {
			t.Errorf("%s: a name that the operator has added: found %d", path, page.Code)
		}
		page := ask(t, served, http.MethodGet, path, "attacker.example.com:9080")
		if page.Code != http.StatusMisdirectedRequest || !strings.Contains(page.Body.String(), "statusPage.hostNames") {
			t.Errorf("%s: expected what to do, but found %d %s", path, page.Code, page.Body)
		}
	}
	if page := ask(t, served, http.MethodGet, "/healthz", "localhost"); page.Code != http.StatusNotFound {
		t.Errorf("expected nothing else there, but found %d", page.Code)
	}
}
