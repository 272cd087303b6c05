package lock

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	m, registry := NewMetrics(), prometheus.NewPedanticRegistry()
	if err := m.Register(registry); err != nil {
		t.Fatal(err)
	}
	m.Add("helm")
	m.Acquired.WithLabelValues("helm").Inc()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			got = append(got, fmt.Sprint(family.GetName(), " ", metric.GetLabel()[0].GetValue(), " ", value))
		}
	}
	want := []string{
		"pergola_lock_acquisitions_total helm 1", "pergola_lock_conflicts_total helm 0",
		"pergola_lock_takeovers_total helm 0", "pergola_locks_held helm 0", "pergola_locks_lost_total helm 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
