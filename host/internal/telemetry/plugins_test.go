package telemetry_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func TestPluginCollector(t *testing.T) {
	status := []plugin.Status{
		{
			File: "helm", State: plugin.Running, Info: &plugin.Info{Name: "helm", Version: "v1", SDKVersion: "v0.1"},
			Restarts:  map[plugin.Reason]int{plugin.ReasonExit: 2, plugin.ReasonWedged: 1},
			StartTook: 90 * time.Millisecond, Calls: 3, DroppedLines: 7,
		},
		{File: "mock", State: plugin.Backoff, Problem: errors.New("ended"), Info: &plugin.Info{Name: "mock", Version: "a\nb"}},
		{File: "loop", State: plugin.CrashLoop, Problem: errors.New("ended"), Info: &plugin.Info{Name: "loop"}},
		{File: "caf\xe9", State: plugin.Refused},
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(telemetry.NewPluginCollector(func() []plugin.Status { return status }))
	url, _ := serve(t, func() error { return nil }, registry)
	want := []string{
		`pergola_plugin_calls{file="helm"} 3`,
		`pergola_plugin_info{file="helm",name="helm",sdk="v0.1",version="v1"} 1`,
		`pergola_plugin_info{file="loop",name="loop",sdk="",version=""} 1`,
		`pergola_plugin_info{file="mock",name="mock",sdk="",version="a\nb"} 1`,
		`pergola_plugin_log_dropped_lines_total{file="helm"} 7`,
		`pergola_plugin_ready{file="helm"} 1`,
		`pergola_plugin_ready{file="mock"} 1`,
		`pergola_plugin_restarts_total{file="helm",reason="exit"} 2`,
		`pergola_plugin_restarts_total{file="helm",reason="wedged"} 1`,
		`pergola_plugin_start_seconds{file="helm"} 0.09`,
		`pergola_plugin_start_seconds{file="loop"} 0`,
		`pergola_plugin_start_seconds{file="mock"} 0`,
		`pergola_plugin_up{file="helm"} 1`,
	}
	all := samples(t, url)
	if diff := cmp.Diff(want, notable(all)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	const series = 4 * (4 + 4) // for each file the reasons of restarts, and four more
	if got, want := len(all), series+3+3; got != want {
		t.Errorf("expected %d series, but found %d:\n%s", want, got, strings.Join(all, "\n"))
	}
	if name := `pergola_plugin_up{file="\"caf\\xe9\""} 0`; !slices.Contains(all, name) {
		t.Errorf("expected %s in\n%s", name, strings.Join(all, "\n"))
	}
	status = nil
	if got := samples(t, url); got != nil {
		t.Errorf("expected no metrics without plugins, but found %v", got)
	}
}

// notable are the samples that are not zero, and the times of starts.
func notable(samples []string) []string {
	return slices.DeleteFunc(slices.Clone(samples), func(sample string) bool {
		return strings.HasSuffix(sample, " 0") && !strings.HasPrefix(sample, "pergola_plugin_start_seconds")
	})
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
