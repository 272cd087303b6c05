package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// samples are the lines of the metrics of some collectors, without their descriptions.
func samples(t *testing.T, collectors ...prometheus.Collector) (lines []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := register(registry, collectors...); err != nil {
		t.Fatal(err)
	}
	return samplesOf(t, registry)
}

func samplesOf(t *testing.T, registry prometheus.Gatherer) (lines []string) {
	t.Helper()
	code, body := ask(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), http.MethodGet, "/metrics", "")
	if code != http.StatusOK {
		t.Fatal(body)
	}
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// newLog returns a log, and its lines so far without their times, each of which is returned once.
func newLog() (*slog.Logger, func() []string) {
	var written bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&written, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
	return log, func() []string {
		defer written.Reset()
		return slices.Collect(strings.Lines(written.String()))
	}
}

func TestPluginCollector(t *testing.T) {
	t.Parallel()
	all := samples(t, NewPluginCollector(func() []plugin.Status {
		return []plugin.Status{
			{
				File: "helm", State: plugin.Running, Info: &plugin.Info{Name: "helm", Version: "v1", SDKVersion: "v0.1"},
				Restarts:  map[plugin.Reason]int{plugin.ReasonExit: 2, plugin.ReasonWedged: 1},
				StartTook: 90 * time.Millisecond, Calls: 3, DroppedLines: 7,
			},
			{File: "mock", State: plugin.Backoff, Info: &plugin.Info{Name: "mock", Version: "a\nb"}},
			{File: "loop", State: plugin.CrashLoop, Info: &plugin.Info{Name: "loop"}},
			{File: "caf\xe9", State: plugin.Refused},
		}
	}))
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
	notable := slices.DeleteFunc(slices.Clone(all), func(sample string) bool {
		return strings.HasSuffix(sample, " 0") && !strings.HasPrefix(sample, "pergola_plugin_start_seconds")
	})
	if diff := cmp.Diff(want, notable); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	const series = 4 * (4 + 4) // for each file the reasons of restarts, and four more
	if got, want := len(all), series+3+3; got != want {
		t.Errorf("expected %d series, but found %d:\n%s", want, got, strings.Join(all, "\n"))
	}
	if name := `pergola_plugin_up{file="\"caf\\xe9\""} 0`; !slices.Contains(all, name) {
		t.Errorf("expected %s in\n%s", name, strings.Join(all, "\n"))
	}
}

func TestCollectors(t *testing.T) {
	t.Parallel()
	got := samples(t,
		NewWorkerCollector(func() []Workers {
			return []Workers{{Plugin: "helm", Used: 3, Max: 20, Queued: 7}, {Plugin: "mock", Max: 5}}
		}),
		NewMemoryCollector(func() MemorySizes {
			return MemorySizes{Cached: map[string]int{"deployitems": 3, "targets": 1}, Items: 2}
		}),
		NewUnservedGauge(func() int { return 4 }))
	want := []string{
		`pergola_cached_objects{resource="deployitems"} 3`,
		`pergola_cached_objects{resource="targets"} 1`,
		`pergola_queue_depth{plugin="helm"} 7`,
		`pergola_queue_depth{plugin="mock"} 0`,
		`pergola_remembered_items 2`,
		`pergola_unserved_deploy_items 4`,
		`pergola_worker_threads_max{plugin="helm"} 20`,
		`pergola_worker_threads_max{plugin="mock"} 5`,
		`pergola_worker_threads_used{plugin="helm"} 3`,
		`pergola_worker_threads_used{plugin="mock"} 0`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestLogWorkers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		used, limit int
		logged      bool
	}{
		// Rule (telemetry.md#the-log, /above): Workers in use are logged when they exceed 70 %.
		"at 70 %": {14, 20, false}, "above": {15, 20, true}, "71.4 %": {5, 7, true}, "none of none": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if tc.logged {
				want = []string{fmt.Sprintf(`{"level":"INFO","msg":"worker threads of controller helm",`+
					`"reconciledResourceKind":"DeployItem","usedWorkerThreads":%d}`+"\n", tc.used)}
			}
			log, lines := newLog()
			LogWorkers(log, "helm", tc.used, tc.limit)
			if diff := cmp.Diff(want, lines()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}
