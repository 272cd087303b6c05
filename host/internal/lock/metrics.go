package lock

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of the locks of one replica, by plugin. They may be used concurrently.
type Metrics struct {
	// Held is the number of locks of this replica.
	Held *prometheus.GaugeVec
	// Acquired counts all acquired locks, TakenOver those of a dead holder.
	Acquired, TakenOver *prometheus.CounterVec
	// Conflicts counts the locks not acquired because another replica was faster.
	Conflicts *prometheus.CounterVec
	// Lost counts the locks that this replica held and did not release itself.
	Lost *prometheus.CounterVec
}

// NewMetrics returns Metrics without any series.
func NewMetrics() *Metrics {
	plugin := []string{"plugin"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, plugin)
	}
	return &Metrics{
		Held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pergola_locks_held", Help: "How many locks of the plugin's items this replica holds.",
		}, plugin),
		Acquired:  counter("pergola_lock_acquisitions_total", "How many locks this replica got, taken over or not."),
		TakenOver: counter("pergola_lock_takeovers_total", "How many locks this replica got whose holder was dead."),
		Conflicts: counter("pergola_lock_conflicts_total",
			"How often this replica did not get a lock because of another one."),
		Lost: counter("pergola_locks_lost_total", "How many locks this replica lost before it gave them back: "+
			"it could not show that it was alive, or the lock was taken or deleted."),
	}
}

// Add adds the series of a plugin, with the value 0.
func (m *Metrics) Add(plugin string) {
	m.Held.WithLabelValues(plugin)
	for _, c := range []*prometheus.CounterVec{m.Acquired, m.TakenOver, m.Conflicts, m.Lost} {
		c.WithLabelValues(plugin)
	}
}

// Register registers all metrics.
func (m *Metrics) Register(registry prometheus.Registerer) (err error) {
	for _, c := range []prometheus.Collector{m.Held, m.Acquired, m.TakenOver, m.Conflicts, m.Lost} {
		err = errors.Join(err, registry.Register(c))
	}
	return err
}
