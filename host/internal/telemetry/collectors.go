package telemetry

import (
	"errors"
	"log/slog"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// collector sends metrics at each collection. It describes none before, because their labels are not known yet.
type collector func(metrics chan<- prometheus.Metric)

var _ prometheus.Collector = collector(nil)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) { c(metrics) }

func gauge(metrics chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// register registers collectors in this order.
func register(registry prometheus.Registerer, collectors ...prometheus.Collector) (err error) {
	for _, c := range collectors {
		err = errors.Join(err, registry.Register(c))
	}
	return err
}

// label returns a text as the value of a label. A value must be UTF-8; the name of a file may be anything.
func label(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strconv.Quote(text)
}

// NewPluginCollector returns a collector of the metrics pergola_plugin_*. Their label is the file in the plugin
// directory, which bounds the number of series.
func NewPluginCollector(status func() []plugin.Status) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pergola_plugin_"+name, help, append([]string{"file"}, labels...), nil)
	}
	up := desc("up", "Whether the plugin takes calls, if only after a start (1), or not (0).")
	ready := desc("ready", "Whether the plugin takes calls, or will again in a moment (1), "+
		"or has failed several times in a row, never run or is refused (0).")
	restarts := desc("restarts_total",
		"How often the plugin's process was started after the first time, by the reason for the end of the process before.",
		"reason")
	start := desc("start_seconds",
		"How long the last start took until the plugin took calls. Absent for a plugin without a start.")
	calls := desc("calls", "How many calls of the plugin are under way.")
	dropped := desc("log_dropped_lines_total",
		"How many lines of the plugin's log were dropped because there were too many.")
	info := desc("info",
		"Always 1; the labels are reported by the plugin. Absent for a plugin without a start.",
		"name", "version", "sdk")
	return collector(func(metrics chan<- prometheus.Metric) {
		for _, s := range status() {
			file := label(s.File)
			gauge(metrics, up, truth(s.TakesCalls()), file)
			gauge(metrics, ready, truth(s.Ready()), file)
			gauge(metrics, calls, float64(s.Calls), file)
			counter := func(desc *prometheus.Desc, value float64, labels ...string) {
				metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, append([]string{file}, labels...)...)
			}
			counter(dropped, float64(s.DroppedLines))
			for _, reason := range plugin.Reasons() {
				counter(restarts, float64(s.Restarts[reason]), string(reason))
			}
			if s.Info != nil {
				gauge(metrics, start, s.StartTook.Seconds(), file)
				gauge(metrics, info, 1, file, label(s.Info.Name), label(s.Info.Version), label(s.Info.SDKVersion))
			}
		}
	})
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// busyPercent is how many percent of a plugin's workers may be in use without a record in the log.
const busyPercent = 70

// LogWorkers logs the number of workers of a plugin in use, if it is more than 70 percent of all. It is called at the
// beginning of a reconcile, with this one included.
func LogWorkers(log *slog.Logger, plugin string, used, limit int) {
	if used*100 > limit*busyPercent {
		log.Info("worker threads of controller "+plugin, "reconciledResourceKind", "DeployItem", "usedWorkerThreads", used)
	}
}

// Workers are the workers of one plugin.
type Workers struct {
	// Plugin is the reported name of the plugin.
	Plugin string `json:"plugin"`
	// Used is the number of busy workers, and Max the number of all.
	Used int `json:"used"`
	Max  int `json:"max"`
	// Queued is the number of deploy items in the queue for one.
	Queued int `json:"queued"`
}

// NewWorkerCollector returns a collector of the metrics pergola_worker_threads_used, pergola_worker_threads_max and
// pergola_queue_depth. workers returns each plugin once; it may be called concurrently at any time.
func NewWorkerCollector(workers func() []Workers) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"plugin"}, nil)
	}
	used := desc("pergola_worker_threads_used",
		"How many calls of the plugin are under way. A waiting item has none.")
	limit := desc("pergola_worker_threads_max", "How many calls of the plugin may be under way at the same time.")
	queued := desc("pergola_queue_depth",
		"How many DeployItems of the plugin are in line for a call of it. With several replicas one can be in line at each.")
	return collector(func(metrics chan<- prometheus.Metric) {
		for _, w := range workers() {
			gauge(metrics, used, float64(w.Used), label(w.Plugin))
			gauge(metrics, limit, float64(w.Max), label(w.Plugin))
			gauge(metrics, queued, float64(w.Queued), label(w.Plugin))
		}
	})
}

// NewUnservedGauge returns the metric pergola_unserved_deploy_items. count may be called concurrently at any time.
func NewUnservedGauge(count func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pergola_unserved_deploy_items",
		Help: "How many DeployItems have a type without a plugin. The log names the types.",
	}, func() float64 { return float64(count()) })
}

// MemorySizes are the sizes of the growing contents of a host's memory.
type MemorySizes struct {
	// Cached is the number of objects in the cache by resource.
	Cached map[string]int
	// Items is the number of remembered deploy items.
	Items int
}

// NewMemoryCollector returns a collector of the metrics pergola_cached_objects and pergola_remembered_items. sizes
// may be called concurrently at any time.
func NewMemoryCollector(sizes func() MemorySizes) prometheus.Collector {
	cached := prometheus.NewDesc("pergola_cached_objects",
		"How many objects of a resource this replica has in its cache.", []string{"resource"}, nil)
	items := prometheus.NewDesc("pergola_remembered_items",
		"How many deploy items this replica remembers with its last work, so that it need not read them again.",
		nil, nil)
	return collector(func(metrics chan<- prometheus.Metric) {
		sizes := sizes()
		for resource, n := range sizes.Cached {
			gauge(metrics, cached, float64(n), resource)
		}
		gauge(metrics, items, float64(sizes.Items))
	})
}
