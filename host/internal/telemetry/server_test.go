package telemetry

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

func plugins() []plugin.Status {
	return []plugin.Status{
		{
			File: "helm-deployer", State: plugin.Running, Info: &plugin.Info{Name: "helm", Version: "v1.2.3"},
			Restarts: map[plugin.Reason]int{plugin.ReasonExit: 1},
		},
		{File: "mock", State: plugin.Starting},
	}
}

// handler is that of a server that was opened, which is closed when the test ends.
func handler(t *testing.T, server *manager.Server, err error) http.Handler {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Listener.Close() })
	return server.Server.Handler
}

// ask asks for a path under the name of a host.
func ask(t *testing.T, of http.Handler, method, path, host string) (code int, body string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	request.Host = host
	answer := httptest.NewRecorder()
	of.ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	var problem error
	ready := func() error { return problem }
	server, err := Listen(t.Context(), "127.0.0.1:0", ready, plugins, registry)
	served := handler(t, server, err)
	type answer struct {
		Code int
		Body string
	}
	twoLines := errors.New("plugin helm: starting\nplugin mock: is no program")
	for name, tc := range map[string]struct {
		reason, method, path string
		problem              error
		want                 answer
	}{
		"healthy": {"the process answers, ready or not", http.MethodGet, "/healthz", twoLines, answer{http.StatusOK, "ok\n"}},
		"not ready": {
			"a line for each reason", http.MethodGet, "/readyz", twoLines,
			answer{http.StatusServiceUnavailable, twoLines.Error() + "\n"},
		},
		"verbose": {"a line for each plugin", http.MethodGet, "/readyz?verbose", nil, answer{http.StatusOK, "ok\n" +
			"[+]plugin helm-deployer Running, 1 restarts: helm v1.2.3\n[-]plugin mock Starting, 0 restarts\n"}},
		"ready": {"ready", http.MethodGet, "/readyz", nil, answer{http.StatusOK, "ok\n"}},
		"metrics": {
			"in Prometheus' format", http.MethodGet, "/metrics", nil,
			answer{http.StatusOK, "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 3\n"},
		},
		"elsewhere": {
			"nothing else is served", http.MethodGet, "/debug/pprof/", nil,
			answer{http.StatusNotFound, "404 page not found\n"},
		},
		"other verbs": {
			"nothing can be changed", http.MethodPost, "/readyz", nil,
			answer{http.StatusMethodNotAllowed, "Method Not Allowed\n"},
		},
	} {
		problem = tc.problem
		code, body := ask(t, served, tc.method, tc.path, "localhost")
		if diff := cmp.Diff(tc.want, answer{code, body}); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
	_, err = Listen(t.Context(), server.Server.Addr, ready, plugins, registry)
	if err == nil || !strings.Contains(err.Error(), server.Server.Addr) {
		t.Errorf("expected an error that names the address, but found %v", err)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	server, err := ListenForProfiles(t.Context(), "127.0.0.1:0")
	served := handler(t, server, err)
	for _, tc := range []struct {
		reason, path, host string
		code               int
		body               string
	}{
		{"the list of profiles", "/debug/pprof/", "localhost:6060", http.StatusOK, "goroutine"},
		{"what takes its time", "/debug/pprof/trace?seconds=0.01", "localhost:6060", http.StatusOK, "go 1."},
		{"nothing else", "/metrics", "127.0.0.1", http.StatusNotFound, "404"},
		{"another name", "/debug/pprof/heap", "attacker.example.com", http.StatusMisdirectedRequest, "localhost alone"},
	} {
		code, body := ask(t, served, http.MethodGet, tc.path, tc.host)
		if code != tc.code || !strings.Contains(body, tc.body) {
			t.Errorf("%s: %d %.200q", tc.reason, code, body)
		}
	}
}
