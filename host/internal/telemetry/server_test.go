package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func plugins() []plugin.Status {
	return []plugin.Status{
		{File: "helm-deployer", State: plugin.Running, Info: &plugin.Info{Name: "helm", Version: "v1.2.3"}, Restarts: map[plugin.Reason]int{plugin.ReasonExit: 1}},
		{File: "mock", State: plugin.Starting},
	}
}

// serve starts a server. stop stops it and returns what Start has returned.
func serve(t *testing.T, ready func() error, metrics prometheus.Gatherer) (url string, stop func() error) {
	t.Helper()
	server, err := telemetry.Listen(t.Context(), "127.0.0.1:0", ready, plugins, metrics)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + server.Server.Addr, stop
}

func request(t *testing.T, method, url string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body), nil
}

func TestEndpoints(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	problem := errors.New("plugin helm: starting\nplugin mock: is no program")
	url, _ := serve(t, func() error { return problem }, registry)
	type answer struct {
		Code int
		Body string
	}
	cases := map[string]struct {
		reason, method, path string
		problem              error
		want                 answer
	}{
		"healthy":   {reason: "the process answers, ready or not", method: http.MethodGet, path: "/healthz", problem: problem, want: answer{http.StatusOK, "ok\n"}},
		"not ready": {reason: "a line for each reason", method: http.MethodGet, path: "/readyz", problem: problem, want: answer{http.StatusServiceUnavailable, problem.Error() + "\n"}},
		"verbose": {
			reason: "a line for each plugin", method: http.MethodGet, path: "/readyz?verbose",
			want: answer{http.StatusOK, "ok\n[+]plugin helm-deployer Running, 1 restarts: helm v1.2.3\n[-]plugin mock Starting, 0 restarts\n"},
		},
		"ready": {reason: "ready", method: http.MethodGet, path: "/readyz", want: answer{http.StatusOK, "ok\n"}},
		"metrics": {
			reason: "in Prometheus' format", method: http.MethodGet, path: "/metrics",
			want: answer{http.StatusOK, "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 3\n"},
		},
		"elsewhere":   {reason: "nothing else is served", method: http.MethodGet, path: "/debug/pprof/", want: answer{http.StatusNotFound, "404 page not found\n"}},
		"other verbs": {reason: "nothing can be changed", method: http.MethodPost, path: "/readyz", want: answer{http.StatusMethodNotAllowed, "Method Not Allowed\n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			problem = tc.problem
			code, body, err := request(t, tc.method, url+tc.path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, answer{code, body}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestStop(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	url, stop := serve(t, func() error {
		close(asked)
		<-answer
		return nil
	}, prometheus.NewRegistry())
	type result struct {
		code int
		err  error
	}
	answered := make(chan result, 1)
	go func() {
		code, _, err := request(t, http.MethodGet, url+"/readyz")
		answered <- result{code, err}
	}()
	<-asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(answer)
	if got := <-answered; got.err != nil || got.code != http.StatusOK {
		t.Errorf("a request under way is answered, but found %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("expected the server to stop in order, but found %v", err)
	}
	if _, _, err := request(t, http.MethodGet, url+"/healthz"); err == nil {
		t.Error("the server answers after it has stopped")
	}
}

func TestAddressInUse(t *testing.T) {
	url, _ := serve(t, func() error { return nil }, prometheus.NewRegistry())
	_, err := telemetry.Listen(t.Context(), strings.TrimPrefix(url, "http://"), func() error { return nil }, plugins, prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(url, "http://")) {
		t.Errorf("expected an error that names the address, but found %v", err)
	}
}
