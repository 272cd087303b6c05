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

	up, ready, restarts, start, calls, dropped, info *prometheus.Desc
}

var _ prometheus.Collector = (*pluginCollector)(nil)

// NewPluginCollector returns a collector of the metrics whose names begin with pergola_plugin_. Their label is the file in the plugin
// directory, so that there are no more series than files.
func NewPluginCollector(status func() []plugin.Status) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pergola_plugin_"+name, help, append([]string{"file"}, labels...), nil)
	}
	return &pluginCollector{
		status:   status,
		up:       desc("up", "Whether the plugin takes calls (1) or not (0)."),
		ready:    desc("ready", "Whether the plugin takes calls, or will again in a moment (1), or has failed several times in a row, never run or is refused (0)."),
		restarts: desc("restarts_total", "How often the plugin's process was started after the first time, by the reason why the one before had ended.", "reason"),
		start:    desc("start_seconds", "How long the last start took until the plugin took calls. Absent for a plugin that has never run."),
		calls:    desc("calls", "How many calls of the plugin are under way."),
		dropped:  desc("log_dropped_lines_total", "How many lines of the plugin's log were dropped because there were too many."),
		info: desc("info", "Always 1; the labels say what the plugin says about itself. Absent for a plugin that has never run.",
			"name", "version", "sdk"),
	}
}

func (c *pluginCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.up, c.ready, c.restarts, c.start, c.calls, c.dropped, c.info} {
		descs <- desc
	}
}

func (c *pluginCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, s := range c.status() {
		file := label(s.File)
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{file}, labels...)...)
		}
		counter := func(desc *prometheus.Desc, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, append([]string{file}, labels...)...)
		}
		gauge(c.up, truth(s.State == plugin.Running))
		gauge(c.ready, truth(s.Ready()))
		gauge(c.calls, float64(s.Calls))
		counter(c.dropped, float64(s.DroppedLines))
		for _, reason := range plugin.Reasons() {
			counter(c.restarts, float64(s.Restarts[reason]), string(reason))
		}
		if s.Info != nil {
			gauge(c.start, s.StartTook.Seconds())
			gauge(c.info, 1, label(s.Info.Name), label(s.Info.Version), label(s.Info.SDKVersion))
		}
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// label is a text as the value of a label, which must be UTF-8; the name of a file may be anything.
func label(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strconv.Quote(text)
}
