package telemetry

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// pluginCollector reads the state of the plugins whenever it is asked for metrics.
type pluginCollector struct {
	status func() []plugin.Status

	up, restarts, info *prometheus.Desc
}

var _ prometheus.Collector = (*pluginCollector)(nil)

// NewPluginCollector returns a collector of the metrics pergola_plugin_up, pergola_plugin_restarts_total and
// pergola_plugin_info. Their label is the file in the plugin directory, so that there are no more series than files.
func NewPluginCollector(status func() []plugin.Status) prometheus.Collector {
	return &pluginCollector{
		status: status,
		up: prometheus.NewDesc("pergola_plugin_up",
			"Whether the plugin takes calls (1) or not (0).", []string{"file"}, nil),
		restarts: prometheus.NewDesc("pergola_plugin_restarts_total",
			"How often the plugin's process was started after the first time.", []string{"file"}, nil),
		info: prometheus.NewDesc("pergola_plugin_info",
			"Always 1; the labels say what the plugin says about itself. Absent for a plugin that has never run.",
			[]string{"file", "name", "version", "sdk"}, nil),
	}
}

func (c *pluginCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.up
	descs <- c.restarts
	descs <- c.info
}

func (c *pluginCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range c.status() {
		up := 0.0
		if s.State == plugin.Running {
			up = 1
		}
		file := label(s.File)
		metrics <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up, file)
		metrics <- prometheus.MustNewConstMetric(c.restarts, prometheus.CounterValue, float64(s.Restarts), file)
		if s.Info != nil {
			metrics <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1,
				file, label(s.Info.Name), label(s.Info.Version), label(s.Info.SDKVersion))
		}
	}
}

// label is a text as the value of a label, which must be UTF-8; the name of a file may be anything.
func label(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strconv.Quote(text)
}
