package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LockStats are the figures of one plugin's locks, as this replica has seen them.
type LockStats struct {
	// Plugin is the name that the plugin gives itself.
	Plugin string
	// Held is how many locks this replica holds now.
	Held int
	// Acquired counts the locks that this replica got, TakenOver those of them whose holder was dead.
	Acquired, TakenOver uint64
	// Conflicts counts how often this replica did not get a lock because another one had it or was faster.
	Conflicts uint64
	// Lost counts the locks that this replica held and did not let go itself: another one took them over.
	Lost uint64
}

// lockCollector reads the figures of the locks whenever it is asked for metrics.
type lockCollector struct {
	stats func() []LockStats

	held, acquired, conflicts, takenOver, lost *prometheus.Desc
}

var _ prometheus.Collector = (*lockCollector)(nil)

// NewLockCollector returns a collector of the metrics pergola_locks_held, pergola_lock_acquisitions_total,
// pergola_lock_conflicts_total, pergola_lock_takeovers_total and pergola_locks_lost_total. stats returns each plugin once; it may
// be called at any time, by several at once. What it counts must not grow less.
func NewLockCollector(stats func() []LockStats) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"plugin"}, nil)
	}
	return &lockCollector{
		stats:     stats,
		held:      desc("pergola_locks_held", "How many locks of the plugin's items this replica holds."),
		acquired:  desc("pergola_lock_acquisitions_total", "How many locks this replica got, taken over or not."),
		conflicts: desc("pergola_lock_conflicts_total", "How often this replica did not get a lock because of another one."),
		takenOver: desc("pergola_lock_takeovers_total", "How many locks this replica got whose holder was dead."),
		lost:      desc("pergola_locks_lost_total", "How many locks this replica lost before it gave them back: it could not show that it was alive, or the lock was taken or deleted."),
	}
}

func (c *lockCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.held
	descs <- c.acquired
	descs <- c.conflicts
	descs <- c.takenOver
	descs <- c.lost
}

func (c *lockCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range c.stats() {
		plugin := label(s.Plugin)
		count := func(desc *prometheus.Desc, n uint64) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), plugin)
		}
		metrics <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(s.Held), plugin)
		count(c.acquired, s.Acquired)
		count(c.conflicts, s.Conflicts)
		count(c.takenOver, s.TakenOver)
		count(c.lost, s.Lost)
	}
}
