package telemetry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func TestLockCollector(t *testing.T) {
	var stats []telemetry.LockStats
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(telemetry.NewLockCollector(func() []telemetry.LockStats { return stats }))
	url, _ := serve(t, func() error { return nil }, registry)
	if got := samples(t, url); got != nil {
		t.Errorf("expected no metrics without plugins, but found %v", got)
	}
	stats = []telemetry.LockStats{{Plugin: "helm", Held: 1, Acquired: 2, Conflicts: 3, TakenOver: 4, Lost: 5}, {Plugin: "mock"}}
	want := []string{
		`pergola_lock_acquisitions_total{plugin="helm"} 2`,
		`pergola_lock_acquisitions_total{plugin="mock"} 0`,
		`pergola_lock_conflicts_total{plugin="helm"} 3`,
		`pergola_lock_conflicts_total{plugin="mock"} 0`,
		`pergola_lock_takeovers_total{plugin="helm"} 4`,
		`pergola_lock_takeovers_total{plugin="mock"} 0`,
		`pergola_locks_held{plugin="helm"} 1`,
		`pergola_locks_held{plugin="mock"} 0`,
		`pergola_locks_lost_total{plugin="helm"} 5`,
		`pergola_locks_lost_total{plugin="mock"} 0`,
	}
	if diff := cmp.Diff(want, samples(t, url)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
