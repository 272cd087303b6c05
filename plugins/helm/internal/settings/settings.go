// Package settings reads the operator's configuration document for the helm plugin.
package settings

import (
	_ "embed" // for Schema
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

const (
	// APIVersion of the document.
	APIVersion = "helm.pergola.dev/v1alpha1"
	// Kind of the document.
	Kind = "HelmConfiguration"
)

// Schema is the JSON schema of the document.
//
//go:embed schema.json
var Schema []byte

// Settings are the document. In the HostConfiguration it stands in plugins.helm.config.
type Settings struct {
	metav1.TypeMeta `json:",inline"`

	// Strict fails the job for an unknown field of a provider configuration. With false the field is skipped, as
	// Landscaper does, with a warning event. Defaults to true.
	Strict bool `json:"strict,omitempty"`
	// Workers bounds the concurrent processes of Helm, including those waiting for hooks, or with wait or atomic.
	// Defaults to 16.
	Workers int `json:"workers,omitempty"`
	// MaxHistory bounds the kept revisions of a release. Defaults to 10, Helm's own default.
	MaxHistory int `json:"maxHistory,omitempty"`
	// ChartCache bounds the cache of downloaded charts.
	ChartCache ChartCache `json:"chartCache,omitempty"`
	// Limits bounds the resources of a chart.
	Limits Limits `json:"limits,omitempty"`
	// Registries are those with a special connection.
	Registries []fetch.Registry `json:"registries,omitempty"`
}

// ChartCache bounds the cache of downloaded charts.
type ChartCache struct {
	// Size of all charts together. Defaults to 500Mi.
	Size pluginconfig.Amount `json:"size,omitempty"`
	// MaxAge is the time without use until a chart is removed. Defaults to 24h.
	MaxAge pluginconfig.Duration `json:"maxAge,omitempty"`
}

// Limits bounds the resources of a chart.
type Limits struct {
	// Archive bounds the size of the packed chart. Defaults to 20Mi.
	Archive pluginconfig.Amount `json:"archive,omitempty"`
	// Unpacked bounds the size of its files together, including those of its sub-charts. Defaults to 100Mi.
	Unpacked pluginconfig.Amount `json:"unpacked,omitempty"`
	// Files bounds their number. Defaults to 10000.
	Files int `json:"files,omitempty"`
	// SubchartDepth bounds the nesting of sub-charts. Defaults to 10.
	SubchartDepth int `json:"subchartDepth,omitempty"`
	// Rendered bounds the output of all templates together. Defaults to 50Mi.
	Rendered pluginconfig.Amount `json:"rendered,omitempty"`
	// RenderTime bounds the time for loading and rendering. Defaults to 30s.
	RenderTime pluginconfig.Duration `json:"renderTime,omitempty"`
	// Memory bounds the memory of a process of Helm. Defaults to 1Gi.
	Memory pluginconfig.Amount `json:"memory,omitempty"`
}

// Default returns the settings of an empty document.
func Default() Settings {
	amount, duration := pluginconfig.AmountOf, pluginconfig.DurationOf
	return Settings{
		TypeMeta:   metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Strict:     true,
		Workers:    16,
		MaxHistory: 10,
		ChartCache: ChartCache{Size: amount("500Mi"), MaxAge: duration("24h")},
		Limits: Limits{
			Archive: amount("20Mi"), Unpacked: amount("100Mi"), Files: 10_000, SubchartDepth: 10,
			Rendered: amount("50Mi"), RenderTime: duration("30s"), Memory: amount("1Gi"),
		},
	}
}

// Load reads a document, YAML or JSON, strictly; empty for defaults. It returns all problems at once.
func Load(document []byte) (Settings, []sdk.Problem) {
	s := Default()
	problems := pluginconfig.Load(document, &s, &s.TypeMeta, s.check)
	return s, problems
}

func (s *Settings) check(p *pluginconfig.Problems) {
	amount := pluginconfig.AmountOf
	p.Number("workers", s.Workers, 100)
	p.Number("maxHistory", s.MaxHistory, 1000)
	p.Amount("limits.archive", s.Limits.Archive, amount("1Ki"), amount("1Gi"))
	p.Amount("limits.unpacked", s.Limits.Unpacked, amount("1Ki"), amount("10Gi"))
	p.Number("limits.files", s.Limits.Files, 1_000_000)
	p.Number("limits.subchartDepth", s.Limits.SubchartDepth, 100)
	p.Amount("limits.rendered", s.Limits.Rendered, amount("1Ki"), amount("1Gi"))
	p.Duration("limits.renderTime", s.Limits.RenderTime, 100*time.Millisecond, time.Hour)
	// The least memory is enough for Helm itself with a small chart, with a reserve.
	p.Amount("limits.memory", s.Limits.Memory, amount("128Mi"), amount("1Ti"))
	p.Amount("chartCache.size", s.ChartCache.Size, amount("1Ki"), amount("1024Ti"))
	if size := s.ChartCache.Size; size.Bytes >= 0 && size.Bytes < s.Limits.Archive.Bytes {
		p.Add("chartCache.size", "expected at least %s, the limit of one chart in limits.archive, but found %s",
			s.Limits.Archive.Text, size.Text)
	}
	p.Duration("chartCache.maxAge", s.ChartCache.MaxAge, time.Second, 10*365*24*time.Hour)
	fetch.CheckRegistries(p, "registries", s.Registries)
}
