package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// start starts a server that was opened, until the test ends, and returns its URL.
func start(t *testing.T, server *manager.Server, err error) (url string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("expected the server to stop in order, but found %v", err)
		}
	})
	return "http://" + server.Server.Addr
}

// request asks for a URL under the name of a host, that of the URL if it is empty.
func request(t *testing.T, method, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
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
	url := start(t, server, err)
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
		code, body := request(t, tc.method, url+tc.path, "")
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
	url := start(t, server, err)
	for _, tc := range []struct {
		reason, path, host string
		code               int
		body               string
	}{
		{"the list of profiles", "/debug/pprof/", "", http.StatusOK, "goroutine"},
		{"what takes its time", "/debug/pprof/trace?seconds=0.01", "", http.StatusOK, "go 1."},
		{"nothing else", "/metrics", "", http.StatusNotFound, "404"},
		{"another name", "/debug/pprof/heap", "attacker.example.com", http.StatusMisdirectedRequest, "localhost alone"},
	} {
		code, body := request(t, http.MethodGet, url+tc.path, tc.host)
		if code != tc.code || !strings.Contains(body, tc.body) {
			t.Errorf("%s: %d %.200q", tc.reason, code, body)
		}
	}
}
