package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MemorySizes are how much a host keeps in its memory that grows with its work.
type MemorySizes struct {
	// Cached is how many objects of each resource are in the cache. Those that are not cached have no entry.
	Cached map[string]int
	// Items is how many deploy items are remembered.
	Items int
}

// memoryCollector looks what is in the memory whenever it is asked for metrics.
type memoryCollector struct {
	sizes func() MemorySizes

	cached, items *prometheus.Desc
}

var _ prometheus.Collector = (*memoryCollector)(nil)

// NewMemoryCollector returns a collector of the metrics pergola_cached_objects and pergola_remembered_items. sizes may be called at any time, by
// several at once.
func NewMemoryCollector(sizes func() MemorySizes) prometheus.Collector {
	return &memoryCollector{
		sizes:  sizes,
		cached: prometheus.NewDesc("pergola_cached_objects", "How many objects of a resource this replica has in its cache.", []string{"resource"}, nil),
		items: prometheus.NewDesc("pergola_remembered_items",
			"Of how many deploy items this replica remembers what it has done last, so that it need not read them again.", nil, nil),
	}
}

func (c *memoryCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.cached
	descs <- c.items
}

func (c *memoryCollector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	sizes := c.sizes()
	for resource, n := range sizes.Cached {
		gauge(c.cached, n, resource)
	}
	gauge(c.items, sizes.Items)
}
