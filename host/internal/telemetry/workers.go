package telemetry

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// busyPercent is how many percent of a plugin's workers may be in use without a record in the log.
const busyPercent = 70

// Workers are those of one plugin.
type Workers struct {
	// Plugin is the name that the plugin gives itself.
	Plugin string
	// Used is how many are working now, and Max how many there are.
	Used, Max int
	// Queued is how many deploy items are in line for one.
	Queued int
}

// LogWorkers logs how many workers of a plugin are in use, out of how many there are, if these are more than 70 percent. It is
// called at the beginning of a reconciliation, with the one that begins.
func LogWorkers(log *slog.Logger, plugin string, used, limit int) {
	if used*100 > limit*busyPercent {
		log.Info("worker threads of controller "+plugin, "reconciledResourceKind", "DeployItem", "usedWorkerThreads", used)
	}
}

// workerCollector counts the workers whenever it is asked for metrics.
type workerCollector struct {
	workers func() []Workers

	used, limit, queued *prometheus.Desc
}

var _ prometheus.Collector = (*workerCollector)(nil)

// NewWorkerCollector returns a collector of the metrics pergola_worker_threads_used, pergola_worker_threads_max and pergola_queue_depth. workers
// returns each plugin once; it may be called at any time, by several at once.
func NewWorkerCollector(workers func() []Workers) prometheus.Collector {
	return &workerCollector{
		workers: workers,
		used: prometheus.NewDesc("pergola_worker_threads_used",
			"How many calls of the plugin are under way. An item that waits for something counts for none.", []string{"plugin"}, nil),
		limit: prometheus.NewDesc("pergola_worker_threads_max",
			"How many calls of the plugin may be under way at the same time.", []string{"plugin"}, nil),
		queued: prometheus.NewDesc("pergola_queue_depth",
			"How many DeployItems of the plugin are in line for a call of it. With several replicas one can be in line at each.", []string{"plugin"}, nil),
	}
}

// NewUnservedGauge returns the metric pergola_unserved_deploy_items. count may be called at any time, by several at
// once.
func NewUnservedGauge(count func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pergola_unserved_deploy_items",
		Help: "How many DeployItems there are of types that no plugin serves. The log names the types.",
	}, func() float64 { return float64(count()) })
}

func (c *workerCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.used
	descs <- c.limit
	descs <- c.queued
}

func (c *workerCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, w := range c.workers() {
		plugin := label(w.Plugin)
		metrics <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(w.Used), plugin)
		metrics <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(w.Max), plugin)
		metrics <- prometheus.MustNewConstMetric(c.queued, prometheus.GaugeValue, float64(w.Queued), plugin)
	}
}
