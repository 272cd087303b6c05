// Package settings reads the operator's configuration document for the helm plugin.
package settings

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// APIVersion of the document.
	APIVersion = "helm.pergola.dev/v1alpha1"
	// Kind of the document.
	Kind = "HelmConfiguration"
)

// HelmConfiguration is the document. In the HostConfiguration it stands in plugins.helm.config. Amounts are texts as
// in Kubernetes for memory, such as 512Mi, and times are texts as in Go, such as 90s or 1h30m.
type HelmConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Strict fails the job for an unknown field of a provider configuration. With false the field is skipped, as
	// Landscaper does, with a warning event. Defaults to true.
	Strict *bool `json:"strict,omitempty"`
	// Workers bounds the concurrent processes of Helm, including those waiting for hooks, or with wait or atomic.
	// Defaults to 16.
	Workers *int `json:"workers,omitempty"`
	// MaxHistory bounds the kept revisions of a release. Defaults to 10, Helm's own default.
	MaxHistory *int `json:"maxHistory,omitempty"`
	// ChartCache bounds the cache of downloaded charts.
	ChartCache ChartCacheConfiguration `json:"chartCache,omitempty"`
	// Limits bounds the resources of a chart.
	Limits LimitsConfiguration `json:"limits,omitempty"`
	// Registries are those with a special connection.
	Registries []fetch.RegistryConfiguration `json:"registries,omitempty"`
}

// ChartCacheConfiguration bounds the cache of downloaded charts.
type ChartCacheConfiguration struct {
	// Size of all charts together. Defaults to 500Mi.
	Size *string `json:"size,omitempty"`
	// MaxAge is the time without use until a chart is removed. Defaults to 24h.
	MaxAge *string `json:"maxAge,omitempty"`
}

// LimitsConfiguration bounds the resources of a chart.
type LimitsConfiguration struct {
	// Archive bounds the size of the packed chart. Defaults to 20Mi.
	Archive *string `json:"archive,omitempty"`
	// Unpacked bounds the size of its files together, including those of its sub-charts. Defaults to 100Mi.
	Unpacked *string `json:"unpacked,omitempty"`
	// Files bounds their number. Defaults to 10000.
	Files *int `json:"files,omitempty"`
	// SubchartDepth bounds the nesting of sub-charts. Defaults to 10.
	SubchartDepth *int `json:"subchartDepth,omitempty"`
	// Rendered bounds the output of all templates together. Defaults to 50Mi.
	Rendered *string `json:"rendered,omitempty"`
	// RenderTime bounds the time for loading and rendering. Defaults to 30s.
	RenderTime *string `json:"renderTime,omitempty"`
	// Memory bounds the memory of a process of Helm. Defaults to 1Gi.
	Memory *string `json:"memory,omitempty"`
}

// Settings are the content of a document, with all defaults.
type Settings struct {
	Strict bool
	// Workers bounds the concurrent processes of Helm.
	Workers int
	// MaxHistory bounds the kept revisions of a release.
	MaxHistory int
	ChartCache ChartCache
	Limits     Limits
	// Registries are those with a special connection.
	Registries []fetch.Registry
}

// ChartCache bounds the cache of downloaded charts.
type ChartCache struct {
	// Bytes of all charts together.
	Bytes int64
	// MaxAge is the time without use until a chart is removed.
	MaxAge time.Duration
}

// Limits bound the resources of a chart.
type Limits struct {
	// ArchiveBytes bounds the packed chart.
	ArchiveBytes int64
	// UnpackedBytes bounds its files together, and Files their number.
	UnpackedBytes int64
	Files         int
	// SubchartDepth bounds the nesting of sub-charts.
	SubchartDepth int
	// RenderedBytes bounds the output of all templates together.
	RenderedBytes int64
	// RenderTime bounds the time for loading and rendering.
	RenderTime time.Duration
	// MemoryBytes bounds the memory of a process of Helm.
	MemoryBytes int64
}

// Default returns the settings of an empty document.
func Default() Settings {
	return Settings{
		Strict:     true,
		Workers:    16,
		MaxHistory: 10,
		ChartCache: ChartCache{Bytes: 500 * mebibyte, MaxAge: 24 * time.Hour},
		Limits: Limits{
			ArchiveBytes:  20 * mebibyte,
			UnpackedBytes: 100 * mebibyte,
			Files:         10_000,
			SubchartDepth: 10,
			RenderedBytes: 50 * mebibyte,
			RenderTime:    30 * time.Second,
			MemoryBytes:   gibibyte,
		},
	}
}

// Load reads a document, YAML or JSON, strictly; empty for defaults. The problems are all mistakes in it, except for
// a value of the wrong type: this one is reported alone.
func Load(document []byte) (Settings, []sdk.Problem) {
	if len(document) == 0 {
		return Default(), nil
	}
	var c HelmConfiguration
	problems, ok := settingsfile.Decode(document, &c)
	if !ok {
		return Default(), problems
	}
	return c.read(problems)
}

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	tebibyte = 1 << 40

	// leastMemory is enough for Helm itself with a small chart, with a reserve.
	leastMemory = 128 * mebibyte
)

// read returns the settings in the document, and adds the mistakes in it to the known problems.
func (c *HelmConfiguration) read(problems settingsfile.Problems) (Settings, []sdk.Problem) {
	s := Default()
	r := &problems
	r.CheckKind(c.TypeMeta, APIVersion, Kind)
	if c.Strict != nil {
		s.Strict = *c.Strict
	}
	r.Number("workers", c.Workers, 100, &s.Workers)
	r.Number("maxHistory", c.MaxHistory, 1000, &s.MaxHistory)
	c.Limits.read(r, &s.Limits)
	r.Amount("chartCache.size", c.ChartCache.Size, kibibyte, 1024*tebibyte, &s.ChartCache.Bytes)
	if s.ChartCache.Bytes < s.Limits.ArchiveBytes {
		r.Add("chartCache.size", "expected at least %s, which limits.archive lets a single chart have, but found %s",
			settingsfile.ShowAmount(s.Limits.ArchiveBytes), settingsfile.ShowAmount(s.ChartCache.Bytes))
	}
	r.Duration("chartCache.maxAge", c.ChartCache.MaxAge, time.Second, 10*365*24*time.Hour, &s.ChartCache.MaxAge)
	s.Registries = fetch.ReadRegistries(r, "registries", c.Registries)
	return s, problems
}

func (c *LimitsConfiguration) read(r *settingsfile.Problems, into *Limits) {
	r.Amount("limits.archive", c.Archive, kibibyte, gibibyte, &into.ArchiveBytes)
	r.Amount("limits.unpacked", c.Unpacked, kibibyte, 10*gibibyte, &into.UnpackedBytes)
	r.Number("limits.files", c.Files, 1_000_000, &into.Files)
	r.Number("limits.subchartDepth", c.SubchartDepth, 100, &into.SubchartDepth)
	r.Amount("limits.rendered", c.Rendered, kibibyte, gibibyte, &into.RenderedBytes)
	r.Duration("limits.renderTime", c.RenderTime, 100*time.Millisecond, time.Hour, &into.RenderTime)
	r.Amount("limits.memory", c.Memory, leastMemory, tebibyte, &into.MemoryBytes)
}
