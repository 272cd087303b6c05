package telemetry_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func TestPluginCollector(t *testing.T) {
	status := []plugin.Status{
		{File: "helm", State: plugin.Running, Restarts: 2, Info: &plugin.Info{Name: "helm", Version: "v1", SDKVersion: "v0.1"}},
		{File: "mock", State: plugin.Backoff, Problem: errors.New("ended"), Info: &plugin.Info{Name: "mock", Version: "a\nb"}},
		{File: "text", State: plugin.Refused},
		{File: "caf\xe9", State: plugin.Refused},
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(telemetry.NewPluginCollector(func() []plugin.Status { return status }))
	url, _ := serve(t, func() error { return nil }, registry)
	want := []string{
		`pergola_plugin_info{file="helm",name="helm",sdk="v0.1",version="v1"} 1`,
		`pergola_plugin_info{file="mock",name="mock",sdk="",version="a\nb"} 1`,
		`pergola_plugin_restarts_total{file="\"caf\\xe9\""} 0`,
		`pergola_plugin_restarts_total{file="helm"} 2`,
		`pergola_plugin_restarts_total{file="mock"} 0`,
		`pergola_plugin_restarts_total{file="text"} 0`,
		`pergola_plugin_up{file="\"caf\\xe9\""} 0`,
		`pergola_plugin_up{file="helm"} 1`,
		`pergola_plugin_up{file="mock"} 0`,
		`pergola_plugin_up{file="text"} 0`,
	}
	if diff := cmp.Diff(want, samples(t, url)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	status = nil
	if got := samples(t, url); got != nil {
		t.Errorf("expected no metrics without plugins, but found %v", got)
	}
}

// samples are the lines of the metrics that a server shows, without their descriptions.
func samples(t *testing.T, url string) []string {
	t.Helper()
	code, body, err := request(t, http.MethodGet, url+"/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d %v\n%s", code, err, body)
	}
	var lines []string
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
