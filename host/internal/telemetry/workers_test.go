package telemetry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func TestWorkerCollector(t *testing.T) {
	var workers []telemetry.Workers
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(telemetry.NewWorkerCollector(func() []telemetry.Workers { return workers }))
	url, _ := serve(t, func() error { return nil }, registry)
	if got := samples(t, url); got != nil {
		t.Errorf("expected no metrics without plugins, but found %v", got)
	}
	workers = []telemetry.Workers{{Plugin: "helm", Used: 3, Max: 20, Queued: 7}, {Plugin: "mock", Max: 5}}
	want := []string{
		`pergola_queue_depth{plugin="helm"} 7`,
		`pergola_queue_depth{plugin="mock"} 0`,
		`pergola_worker_threads_max{plugin="helm"} 20`,
		`pergola_worker_threads_max{plugin="mock"} 5`,
		`pergola_worker_threads_used{plugin="helm"} 3`,
		`pergola_worker_threads_used{plugin="mock"} 0`,
	}
	if diff := cmp.Diff(want, samples(t, url)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestLogWorkers(t *testing.T) {
	record := func(used string) string {
		return `{"level":"INFO","msg":"worker threads of controller helm","reconciledResourceKind":"DeployItem","usedWorkerThreads":` + used + `}`
	}
	cases := map[string]struct {
		reason      string
		used, limit int
		want        []string
	}{
		"idle":        {reason: "nothing is used", used: 0, limit: 20},
		"at 70 %":     {reason: "70 percent are not exceeded", used: 14, limit: 20},
		"above":       {reason: "they are exceeded", used: 15, limit: 20, want: []string{record("15")}},
		"rounding":    {reason: "5 of 7 are 71.4 percent", used: 5, limit: 7, want: []string{record("5")}},
		"all":         {reason: "all are used", used: 1, limit: 1, want: []string{record("1")}},
		"more":        {reason: "the limit was lowered", used: 3, limit: 2, want: []string{record("3")}},
		"no workers":  {reason: "none of none are used", used: 0, limit: 0},
		"many at 70%": {reason: "the largest number that can be configured", used: 700, limit: 1000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			log, lines := newLog()
			telemetry.LogWorkers(log, "helm", tc.used, tc.limit)
			if diff := cmp.Diff(tc.want, lines.all()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
