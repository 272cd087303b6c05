// Package pluginmetrics shows the metrics of plugins beside those of the host.
//
// A plugin is asked at each scrape. Its answer gets its name as a prefix, and is bounded and checked: neither a wrong
// nor a silent plugin keeps a Prometheus from the metrics of the host and of other plugins.
package pluginmetrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// timeout bounds the answer of a plugin. A Prometheus waits for ten seconds by default.
const timeout = time.Second

// Plugin is a *plugin.Plugin with metrics.
type Plugin interface {
	Name() string
	// Metrics returns the metrics in the text format of Prometheus.
	Metrics(ctx context.Context) ([]byte, error)
}

// Registry is a *prometheus.Registry.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// gatherer gathers the metrics of a host and its plugins.
type gatherer struct {
	host       prometheus.Gatherer
	plugins    func() []Plugin
	incomplete *prometheus.GaugeVec
	log        *slog.Logger

	mu     sync.Mutex
	broken map[string]bool // by plugin: its last answer was not complete
}

// Beside returns the metrics of a host with those of its plugins, and registers the metric
// pergola_plugin_metrics_incomplete. plugins may be called concurrently at any time.
func Beside(host Registry, plugins func() []Plugin, log *slog.Logger) (prometheus.Gatherer, error) {
	g := &gatherer{
		host: host, plugins: plugins, log: log, broken: map[string]bool{},
		incomplete: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pergola_plugin_metrics_incomplete",
			Help: "Whether the metrics of the plugin itself are missing or not complete (1); the log has the reason.",
		}, []string{"plugin"}),
	}
	return g, host.Register(g.incomplete)
}

// Gather implements prometheus.Gatherer. The error is about the host's own metrics.
func (g *gatherer) Gather() ([]*dto.MetricFamily, error) {
	own := g.gatherPlugins()
	families, err := g.host.Gather()
	families = append(families, own...)
	slices.SortStableFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, err
}

// gatherPlugins asks all plugins at once.
func (g *gatherer) gatherPlugins() []*dto.MetricFamily {
	plugins := g.plugins()
	slices.SortFunc(plugins, func(a, b Plugin) int { return strings.Compare(a.Name(), b.Name()) })
	answers := make([][]*dto.MetricFamily, len(plugins))
	var asking sync.WaitGroup
	for i, p := range plugins {
		asking.Go(func() {
			families, err := ask(p)
			g.report(p.Name(), err)
			answers[i] = families
		})
	}
	asking.Wait()
	all, err := consistent(slices.Concat(answers...))
	if err != nil {
		g.log.Debug("metrics of plugins have the same name", "error", err.Error())
	}
	return all
}

// ask returns the metrics of a plugin; none of a plugin that does not run.
func ask(p Plugin) ([]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	text, err := p.Metrics(ctx)
	switch {
	case errors.Is(err, plugin.ErrNotRunning): // other metrics show it
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("it gave no answer within %s: %w", timeout, err)
	}
	return read(p.Name(), text)
}

// report shows whether the metrics of a plugin are complete, and logs when that changes.
func (g *gatherer) report(plugin string, err error) {
	value := 0.0
	if err != nil {
		value = 1
	}
	g.incomplete.WithLabelValues(plugin).Set(value)
	g.mu.Lock()
	before := g.broken[plugin]
	g.broken[plugin] = err != nil
	g.mu.Unlock()
	if err != nil && !before {
		g.log.Warn("the metrics of the plugin itself are not complete", "plugin", plugin,
			"error", hostside.Bounded(err.Error()))
	}
}
