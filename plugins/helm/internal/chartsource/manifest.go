package chartsource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The media types of Helm, which its library has in a package that brings the whole client along.
const (
	helmConfig      = "application/vnd.cncf.helm.config.v1+json"
	helmLayer       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	helmLayerLegacy = "application/tar+gzip"

	dockerImage        = "application/vnd.docker.container.image.v1+json"
	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
)

const (
	// maxManifest is what registries take.
	maxManifest = 4 << 20
	// maxManifests bounds how many manifests of an index are read to find the one of a chart.
	maxManifests = 16
)

// manifest is a manifest, or an index of manifests.
type manifest struct {
	Config    *ocispec.Descriptor  `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
	Manifests []ocispec.Descriptor `json:"manifests"`
}

// chartLayer returns the layer of a manifest that is the chart.
func (p *pull) chartLayer(ctx context.Context, document []byte) (layer ocispec.Descriptor, err error) {
	m, err := readManifest(document)
	if err == nil && m.Manifests != nil {
		m, err = p.onlyChart(ctx, m.Manifests)
	}
	switch {
	case err != nil:
		return layer, err
	case m.isChart():
		return m.chartLayer()
	case m.Config != nil && slices.Contains([]string{ocispec.MediaTypeImageConfig, dockerImage}, m.Config.MediaType):
		return layer, noChart("what is there is a container image")
	default: // what servers send is repeated only if it is known
		return layer, noChart("what is there is something of another kind")
	}
}

// onlyChart returns the only manifest of an index that is one of a chart: a chart is for all platforms, and the others
// are of something else, such as an image or a signature.
func (p *pull) onlyChart(ctx context.Context, candidates []ocispec.Descriptor) (*manifest, error) {
	// Older tools do not say of each manifest what it is.
	isChart := func(m ocispec.Descriptor) bool { return m.ArtifactType == helmConfig }
	if named := selectBy(candidates, isChart); len(named) > 0 {
		candidates = named
	}
	if len(candidates) > maxManifests {
		return nil, noChart("what is there is an index of %d manifests, of which nothing says which one is the chart",
			len(candidates))
	}
	var charts []*manifest
	for _, candidate := range candidates {
		if candidate.Digest.Validate() != nil {
			return nil, noChart("what is there is an index with a manifest whose digest cannot be right")
		}
		_, document, err := p.manifest(ctx, candidate.Digest.String(), "")
		if err != nil {
			return nil, err
		}
		m, err := readManifest(document)
		if err != nil {
			return nil, err
		}
		if m.isChart() {
			charts = append(charts, m)
		}
	}
	if len(charts) != 1 {
		return nil, noChart("what is there is an index of manifests, of which %d are charts", len(charts))
	}
	return charts[0], nil
}

// readManifest refuses what is a manifest and an index as well: some could take it for the one thing and some for the
// other.
func readManifest(document []byte) (*manifest, error) {
	m := &manifest{}
	if err := json.Unmarshal(document, m); err != nil || m.Manifests != nil && (m.Layers != nil || m.Config != nil) {
		return nil, noChart("what is there cannot be read as a manifest")
	}
	return m, nil
}

func (m *manifest) isChart() bool { return m.Config != nil && m.Config.MediaType == helmConfig }

// chartLayer returns the one layer of a chart's manifest that is its archive. Another may be its provenance.
func (m *manifest) chartLayer() (layer ocispec.Descriptor, err error) {
	layers := selectBy(m.Layers, func(l ocispec.Descriptor) bool { return l.MediaType == helmLayer })
	if len(layers) == 0 {
		layers = selectBy(m.Layers, func(l ocispec.Descriptor) bool { return l.MediaType == helmLayerLegacy })
	}
	switch {
	case len(layers) != 1:
		return layer, noChart("its manifest has %d layers with an archive instead of one", len(layers))
	case layers[0].Digest.Validate() != nil, layers[0].Size < 0:
		return layer, noChart("its manifest has a layer whose digest or size cannot be right")
	default:
		return layers[0], nil
	}
}

func selectBy(all []ocispec.Descriptor, is func(ocispec.Descriptor) bool) (selected []ocispec.Descriptor) {
	for _, d := range all {
		if is(d) {
			selected = append(selected, d)
		}
	}
	return selected
}

// noChart is the error for what is no chart.
func noChart(format string, args ...any) error {
	return faultf(ReasonArchiveInvalid, `expected a chart, as "helm push" makes it, but %s; check the reference`,
		fmt.Sprintf(format, args...))
}
