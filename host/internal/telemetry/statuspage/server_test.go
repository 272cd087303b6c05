package statuspage

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// serve serves a page on loopback until the test ends, and returns its URL.
func serve(t *testing.T, sources Sources) string {
	t.Helper()
	names := telemetry.HostNames{More: []string{"status.example.org"}}
	s, err := Listen(t.Context(), "127.0.0.1:0", names, sources, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Server.Addr
}

// answer is that to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// get returns the answer to a request for a host of a name; the URL's own if it is empty.
func get(t *testing.T, method, url, name string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = name
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: string(body)}
}

func TestPages(t *testing.T) {
	t.Parallel()
	sources := newSources("web")
	sources.Jobs.Observe(jobOf("bad"), noon, failed)
	sources.Jobs.Observe(jobOf("hostile"), noon, telemetry.Waits{For: `"><img src=x onerror=alert(1)>`})
	script := &telemetry.Error{Text: `<script>alert("error")</script>`}
	sources.Jobs.Observe(jobOf("worse"), noon, telemetry.Ended{Error: script})
	url := serve(t, sources)
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
		page := get(t, http.MethodGet, url+tc.path, "")
		if page.status != http.StatusOK || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
			t.Fatalf("%s: found %d", tc.reason, page.status)
		}
		for _, text := range tc.want {
			if !strings.Contains(page.body, text) {
				t.Errorf("%s: expected %q in\n%s", tc.reason, text, page.body)
			}
		}
		if strings.Contains(page.body, `http-equiv="refresh"`) == strings.Contains(tc.path, "still") {
			t.Errorf("%s: whether the browser reloads is wrong", tc.reason)
		}
		checkInert(t, tc.path, page.body)
		policy := page.header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") ||
			strings.Contains(policy, "unsafe") || page.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: unexpected headers %v", tc.reason, page.header)
		}
	}
}

// checkInert checks that a page runs nothing and loads nothing but its style.
func checkInert(t *testing.T, path, body string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"script", "img", "iframe", "form", "object", "embed", "style"}, n.Data) {
			t.Errorf("%s has a %s", path, n.Data)
		}
		for _, attribute := range n.Attr {
			if strings.HasPrefix(attribute.Key, "on") || attribute.Key == "style" {
				t.Errorf("%s has the attribute %s", path, attribute.Key)
			}
			if slices.Contains([]string{"href", "src"}, attribute.Key) && !strings.ContainsAny(attribute.Val[:1], "/?") {
				t.Errorf("%s refers to %s", path, attribute.Val)
			}
		}
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	url := serve(t, newSources())
	for _, path := range []string{"/", "/status.json", "/style.css"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if page := get(t, method, url+path, ""); page.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: expected that it is not allowed, but found %d", method, path, page.status)
			}
		}
		if page := get(t, http.MethodGet, url+path, "Status.example.org"); page.status != http.StatusOK {
			t.Errorf("%s: a name that the operator has added: found %d", path, page.status)
		}
		page := get(t, http.MethodGet, url+path, "attacker.example.com:9080")
		if page.status != http.StatusMisdirectedRequest || !strings.Contains(page.body, "statusPage.hostNames") {
			t.Errorf("%s: expected what to do, but found %d %s", path, page.status, page.body)
		}
	}
	if page := get(t, http.MethodGet, url+"/healthz", ""); page.status != http.StatusNotFound {
		t.Errorf("expected nothing else there, but found %d", page.status)
	}
}
