package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LockMetrics are the metrics of the locks of one replica, by plugin. They may be used concurrently.
type LockMetrics struct {
	// Held is how many locks this replica holds.
	Held *prometheus.GaugeVec
	// Acquired counts the locks that this replica got, TakenOver those of them whose holder was dead.
	Acquired, TakenOver *prometheus.CounterVec
	// Conflicts counts how often this replica did not get a lock because another one was faster.
	Conflicts *prometheus.CounterVec
	// Lost counts the locks that this replica held and did not let go itself.
	Lost *prometheus.CounterVec
}

var _ prometheus.Collector = (*LockMetrics)(nil)

// NewLockMetrics returns LockMetrics without any series.
func NewLockMetrics() *LockMetrics {
	plugin := []string{"plugin"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, plugin)
	}
	return &LockMetrics{
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

// Add has the metrics of a plugin shown, with 0 at first.
func (m *LockMetrics) Add(plugin string) {
	m.Held.WithLabelValues(plugin)
	for _, c := range []*prometheus.CounterVec{m.Acquired, m.TakenOver, m.Conflicts, m.Lost} {
		c.WithLabelValues(plugin)
	}
}

func (m *LockMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Held, m.Acquired, m.TakenOver, m.Conflicts, m.Lost}
}

// Describe implements prometheus.Collector.
func (m *LockMetrics) Describe(descs chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (m *LockMetrics) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(metrics)
	}
}
