// Package settings reads the configuration document of the helm plugin itself, which an operator writes.
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
// Kubernetes has them for memory, such as 512Mi, and times are texts as Go has them, such as 90s or 1h30m.
type HelmConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Strict says whether an unknown field of a provider configuration fails its job. With false it is passed over, as
	// Landscaper does, and told by a warning event. Defaults to true.
	Strict *bool `json:"strict,omitempty"`
	// Workers is how many processes of Helm there are at once. One that waits for hooks, or with wait or atomic, is one
	// of them. Defaults to 16.
	Workers *int `json:"workers,omitempty"`
	// MaxHistory is how many revisions of a release are kept. Defaults to 10, which is Helm's own default.
	MaxHistory *int `json:"maxHistory,omitempty"`
	// ChartCache bounds what is kept of charts that were downloaded.
	ChartCache ChartCacheConfiguration `json:"chartCache,omitempty"`
	// Limits bounds what a chart may use.
	Limits LimitsConfiguration `json:"limits,omitempty"`
	// Registries are those that are not spoken to in the usual way.
	Registries []fetch.RegistryConfiguration `json:"registries,omitempty"`
}

// ChartCacheConfiguration bounds what is kept of charts that were downloaded.
type ChartCacheConfiguration struct {
	// Size of all of them together. Defaults to 500Mi.
	Size *string `json:"size,omitempty"`
	// MaxAge is after which time without use one is removed. Defaults to 24h.
	MaxAge *string `json:"maxAge,omitempty"`
}

// LimitsConfiguration bounds what a chart may use.
type LimitsConfiguration struct {
	// Archive is how large the packed chart may be. Defaults to 20Mi.
	Archive *string `json:"archive,omitempty"`
	// Unpacked is how large its files may be together, those of its sub-charts included. Defaults to 100Mi.
	Unpacked *string `json:"unpacked,omitempty"`
	// Files is how many there may be. Defaults to 10000.
	Files *int `json:"files,omitempty"`
	// SubchartDepth is how deep sub-charts may be nested. Defaults to 10.
	SubchartDepth *int `json:"subchartDepth,omitempty"`
	// Rendered is how large that may be which the templates are rendered to, together. Defaults to 50Mi.
	Rendered *string `json:"rendered,omitempty"`
	// RenderTime is how long loading and rendering may take. Defaults to 30s.
	RenderTime *string `json:"renderTime,omitempty"`
	// Memory is what a process of Helm may use. Defaults to 1Gi.
	Memory *string `json:"memory,omitempty"`
}

// Settings are what a document says, with all defaults.
type Settings struct {
	Strict bool
	// Workers is how many processes of Helm there are at once.
	Workers int
	// MaxHistory is how many revisions of a release are kept.
	MaxHistory int
	ChartCache ChartCache
	Limits     Limits
	// Registries are those that are not spoken to in the usual way.
	Registries []fetch.Registry
}

// ChartCache bounds what is kept of charts that were downloaded.
type ChartCache struct {
	// Bytes of all of them together.
	Bytes int64
	// MaxAge is after which time without use one is removed.
	MaxAge time.Duration
}

// Limits are what a chart may use.
type Limits struct {
	// ArchiveBytes bounds the packed chart.
	ArchiveBytes int64
	// UnpackedBytes bounds its files together, and Files their number.
	UnpackedBytes int64
	Files         int
	// SubchartDepth bounds how deep sub-charts are nested.
	SubchartDepth int
	// RenderedBytes bounds what the templates are rendered to, together.
	RenderedBytes int64
	// RenderTime is how long loading and rendering may take.
	RenderTime time.Duration
	// MemoryBytes bounds what a process of Helm uses.
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

// Load reads a document, YAML or JSON, strictly; empty for defaults. The problems are everything that is wrong with it,
// at once, but for a value of the wrong type, which is reported alone.
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

	// leastMemory is what Helm itself needs with a small chart, and some.
	leastMemory = 128 * mebibyte
)

// read returns what the document says, and adds what is wrong with it to the problems that are known.
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
