package telemetry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func TestLockMetrics(t *testing.T) {
	m, registry := telemetry.NewLockMetrics(), prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	url, _ := serve(t, func() error { return nil }, registry)
	if got := samples(t, url); got != nil {
		t.Errorf("expected no metrics without plugins, but found %v", got)
	}
	m.Add("helm")
	m.Acquired.WithLabelValues("helm").Inc()
	want := []string{
		`pergola_lock_acquisitions_total{plugin="helm"} 1`,
		`pergola_lock_conflicts_total{plugin="helm"} 0`,
		`pergola_lock_takeovers_total{plugin="helm"} 0`,
		`pergola_locks_held{plugin="helm"} 0`,
		`pergola_locks_lost_total{plugin="helm"} 0`,
	}
	if diff := cmp.Diff(want, samples(t, url)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
